"""llama.cpp's HTTP server in this process: `llama_server.py MODEL.gguf PORT SLOTS TOKENS`. Serves until it is killed.

TOKENS is the context of each slot.
"""

import signal
import sys

import xllamacpp

model, port, slots, tokens = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.model_alias = {"tiny"}
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_parallel = int(slots)
params.n_ctx = int(slots) * int(tokens)
params.cpuparams.n_threads = 1
params.n_gpu_layers = 0
params.use_jinja = True
params.endpoint_metrics = True
params.endpoint_slots = True
server = xllamacpp.Server(params)
signal.pause()
