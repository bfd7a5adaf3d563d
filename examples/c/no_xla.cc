// Turns XLA off before main, as tensorflow_model_server does unless it is started
// with --xla_cpu_compilation_enabled or --xla_gpu_compilation_enabled.

namespace tensorflow {
void DisableXlaCompilation();
}

[[gnu::constructor]] static void BeforeMain() { tensorflow::DisableXlaCompilation(); }
