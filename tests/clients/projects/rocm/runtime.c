// The functions of libamdhip64.so that a program is linked with. They do nothing: no kernel runs.
int hipLaunchKernel(void) { return 0; }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
void **__hipRegisterFatBinary(void) {
  static void *handle;
  return &handle;
}
void __hipUnregisterFatBinary(void) {}
void __hipRegisterFunction(void) {}
void __hipRegisterVar(void) {}
void __hipRegisterSurface(void) {}
void __hipRegisterTexture(void) {}
void __hipRegisterManagedVar(void) {}
