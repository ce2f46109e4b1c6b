// inference-lab's start and one run: node lab.mjs PACKAGE_DIR REQUESTS -> {"start_ms", "run_ms", "completed"}
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, requests] = process.argv;
const start = performance.now();
const lab = await import(pathToFileURL(path.join(folder, "inference_lab.js")));
lab.initSync({ module: fs.readFileSync(path.join(folder, "inference_lab_bg.wasm")) });
const ready = performance.now();
const found = lab.run_simulation(JSON.stringify({
  hardware: { name: "H100", compute_flops: 989e12, memory_bandwidth: 3.35e12, memory_capacity: 80e9, kv_cache_capacity: 50e9,
    gpu_memory_utilization: 0.9, bytes_per_param: 2 },
  model: { name: "8B", num_parameters: 8030261248, num_active_parameters: 8030261248, num_layers: 32, hidden_dim: 4096,
    num_heads: 32, num_kv_heads: 8, max_seq_len: 131072 },
  scheduler: { max_num_batched_tokens: 512, max_num_seqs: 256, policy: "fcfs", enable_chunked_prefill: true,
    long_prefill_token_threshold: 0, max_num_partial_prefills: 1, block_size: 16 },
  workload: { arrival_pattern: "poisson", arrival_rate: 8, input_len_dist: { type: "lognormal", mean: 6.74, std_dev: 0.6 },
    output_len_dist: { type: "lognormal", mean: 5.36, std_dev: 0.6 }, num_requests: Number(requests), seed: 1 },
  simulation: { log_interval: 1000 },
}));
const read = (value) => (value instanceof Map ? Object.fromEntries([...value].map(([key, one]) => [key, read(one)])) : value);
const run = performance.now() - ready;
const { metrics, distributions } = read(found);
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
console.log(JSON.stringify({ start_ms: ready - start, run_ms: run, completed: metrics.completed_requests,
  prompt_tokens: sum(distributions.input_lengths), output_tokens: sum(distributions.output_lengths) }));
