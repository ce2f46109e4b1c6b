"""The torch companion: engines and measurements that check what the core predicts. Imports pycore, never studios."""
