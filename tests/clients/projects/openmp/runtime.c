// The functions of libomptarget.so that a program is linked with. Regions run on the host: no device is there.
void __tgt_register_lib(void) {}
void __tgt_unregister_lib(void) {}
int __tgt_target_kernel(void) { return 1; }
