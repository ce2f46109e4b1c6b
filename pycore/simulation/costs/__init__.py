"""What a step costs: models that turn the shape of a step into nanoseconds. Each is one module, all keep one contract.

`work.StepCost` is the contract; `roofline` (datasheet rates and fitted shares), `tables` (measured kernels) and
`custom` (a table or coefficients of one's own) are the models; `overhead` adds what the host takes.
"""
