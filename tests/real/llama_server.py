"""A real llama.cpp server in this process: `llama_server.py MODEL.gguf PORT`. Serves until it is killed."""

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.model_alias = {"smollm2"}
params.n_ctx = 4096
params.n_parallel = 4
params.cpuparams.n_threads = 1
params.n_gpu_layers = 0
params.warmup = False
params.use_jinja = True
params.endpoint_metrics = True
params.endpoint_slots = True
server = xllamacpp.Server(params)
signal.pause()
