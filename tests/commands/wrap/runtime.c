/* Stand-ins for the offload runtimes: each call is printed with all its arguments, and so is the state of the stack.

   The program has entries of every kind, as compilers write them, so that what a wrapper registers can be compared.
   Compile with -DIMAGE_SIZE=N, the bytes of a fat binary that are printed; -DNO_ENTRIES leaves the entries out, and
   -DOLD_ENTRIES has those of LLVM 20 and before. */
#include <stdint.h>
#include <stdio.h>

#ifdef OLD_ENTRIES
struct entry { void *address; const char *name; uint64_t size; uint32_t flags, data; };
#else
struct entry { uint64_t reserved; uint16_t version, kind; uint32_t flags; void *address; const char *name;
               uint64_t size, data; void *auxiliary; };
#endif
struct fatbin { uint32_t magic, version; const unsigned char *image; void *reserved; };
struct image { const unsigned char *begin, *end; const struct entry *first, *last; };
struct descriptor { int32_t count; struct image *images; const struct entry *first, *last; };
struct sycl_image { uint16_t version; uint8_t offload, kind; const char *target, *compile, *link;
                    const unsigned char *begin, *end; const struct entry *first, *last; void *properties[2]; };
struct sycl_descriptor { uint16_t version, count; struct sycl_image *images; void *none[2]; };

static char thing[8];
static void *handle = thing;

/* What stands at an address, by a name that is the same in every program. */
static const char *what(const void *at) {
  if (!at) return "null";
  return (const char *)at >= thing && (const char *)at < thing + 8 ? "thing" : "somewhere";
}

static long offset(const void *at) { return at && what(at)[0] == 't' ? (long)((const char *)at - thing) : 0; }

/* The ABI wants the stack at a multiple of 16 bytes where a function is called. */
#define SAY(...) do { char local[16] __attribute__((aligned(16))); \
  printf("%s ", (uintptr_t)__builtin_frame_address(0) % 16 || (uintptr_t)local % 16 ? "MISALIGNED" : "call"); \
  printf(__VA_ARGS__); fflush(stdout); } while (0)

static void bytes(const unsigned char *at, const unsigned char *end) {
  for (; at < end; ++at) printf("%02x", *at);
}

static void entries(const struct entry *at, const struct entry *end) {
  for (; at != end; ++at)
#ifdef OLD_ENTRIES
    printf(" {%x %s+%ld %s %llu %u}", at->flags, what(at->address), offset(at->address), at->name,
           (unsigned long long)at->size, at->data);
#else
    printf(" {%u %u %x %s+%ld %s %llu %llu %s}", at->version, at->kind, at->flags, what(at->address),
           offset(at->address), at->name, (unsigned long long)at->size, (unsigned long long)at->data,
           what(at->auxiliary));
#endif
}

#define RUNTIME(R) \
  void *__##R##RegisterFatBinary(const struct fatbin *f) { \
    SAY("%sRegisterFatBinary %x %u %s ", #R, f->magic, f->version, what(f->reserved)); \
    bytes(f->image, f->image + IMAGE_SIZE); puts(""); return handle; } \
  void __##R##RegisterFatBinaryEnd(void *h) { SAY("%sRegisterFatBinaryEnd %s\n", #R, what(h)); } \
  void __##R##UnregisterFatBinary(void *h) { SAY("%sUnregisterFatBinary %s\n", #R, what(h)); } \
  int __##R##RegisterFunction(void *h, void *a, void *n, const char *d, int t, void *x, void *y, void *z, void *w, \
                              int *s) { \
    SAY("%sRegisterFunction %s %s+%ld %s %d %d %s %s %s %s %s\n", #R, what(h), what(a), offset(a), d, n == d, t, \
        what(x), what(y), what(z), what(w), what(s)); return 0; } \
  void __##R##RegisterVar(void *h, void *a, void *n, const char *d, int e, uint64_t s, int c, int g) { \
    SAY("%sRegisterVar %s %s+%ld %s %d %d %llu %d %d\n", #R, what(h), what(a), offset(a), d, n == d, e, \
        (unsigned long long)s, c, g); } \
  void __##R##RegisterManagedVar(void *h, void *p, void *a, const char *n, uint64_t s, int l) { \
    SAY("%sRegisterManagedVar %s %s+%ld %s+%ld %s %llu %d\n", #R, what(h), what(p), offset(p), what(a), offset(a), n, \
        (unsigned long long)s, l); } \
  void __##R##RegisterSurface(void *h, void *a, void *n, const char *d, int t, int e) { \
    SAY("%sRegisterSurface %s %s+%ld %s %d %d %d\n", #R, what(h), what(a), offset(a), d, n == d, t, e); } \
  void __##R##RegisterTexture(void *h, void *a, void *n, const char *d, int t, int m, int e) { \
    SAY("%sRegisterTexture %s %s+%ld %s %d %d %d %d\n", #R, what(h), what(a), offset(a), d, n == d, t, m, e); }

RUNTIME(cuda)
RUNTIME(hip)

static void openmp(const char *name, const struct descriptor *d) {
  SAY("%s %d", name, d->count);
  entries(d->first, d->last);
  for (int i = 0; i < d->count; ++i) {
    printf(" [%ld ", (long)(d->images[i].end - d->images[i].begin));
    bytes(d->images[i].begin, d->images[i].end);
    printf(" %d]", d->images[i].first == d->first && d->images[i].last == d->last);
  }
  puts("");
}
void __tgt_register_lib(const struct descriptor *d) { openmp("register_lib", d); }
void __tgt_unregister_lib(const struct descriptor *d) { openmp("unregister_lib", d); }

#ifdef SYCL_DESCRIPTOR
static void sycl(const char *name, const struct sycl_descriptor *d) {
  SAY("%s %u %u %s %s", name, d->version, d->count, what(d->none[0]), what(d->none[1]));
  for (int i = 0; i < d->count; ++i) {
    const struct sycl_image *m = &d->images[i];
    printf(" [%u %u %u %s <%s> <%s> ", m->version, m->offload, m->kind, m->target, m->compile, m->link);
    bytes(m->begin, m->end);
    entries(m->first, m->last);
    printf(" %s %s]", what(m->properties[0]), what(m->properties[1]));
  }
  puts("");
}
void __sycl_register_lib(const struct sycl_descriptor *d) { sycl("sycl_register_lib", d); }
void __sycl_unregister_lib(const struct sycl_descriptor *d) { sycl("sycl_unregister_lib", d); }
#else
static void sycl(const char *name, const unsigned char *at, uint64_t size) {
  SAY("%s %llu ", name, (unsigned long long)size);
  bytes(at, at + size);
  puts("");
}
void __sycl_register_lib(const unsigned char *at, uint64_t size) { sycl("sycl_register_lib", at, size); }
void __sycl_unregister_lib(const unsigned char *at, uint64_t size) { sycl("sycl_unregister_lib", at, size); }
#endif

#ifndef NO_ENTRIES
#ifdef _WIN32
#define OF_OBJECT "$OE"
#else
#define OF_OBJECT
#endif
#ifdef OLD_ENTRIES
#define SECTION_1 "omp_offloading_entries" OF_OBJECT
#define SECTION_2 "cuda_offloading_entries" OF_OBJECT
#define SECTION_4 "hip_offloading_entries" OF_OBJECT
#define ENTRY(I, K, F, A, N, S, D, X) \
  static const struct entry entry_##K##I __attribute__((used, section(SECTION_##K), aligned(1))) = {A, N, S, F, D};
#else
#define ENTRY(I, K, F, A, N, S, D, X) \
  static const struct entry entry_##K##I __attribute__((used, section("llvm_offload_entries" OF_OBJECT), aligned(8))) = \
    {0, 1, K, F, A, N, S, D, X};
#endif
#define ENTRIES_OF(K, P) \
  ENTRY(0, K, 0, thing + 1, P "kernel", 0, 0, 0) \
  ENTRY(1, K, 0, thing + 2, P "variable", 4, 0, 0) \
  ENTRY(2, K, 0x18, thing + 3, P "constant", 0x123456789, 0, 0) \
  ENTRY(3, K, 1, thing + 4, P "managed", 24, 16, thing + 7) \
  ENTRY(4, K, 0x0a, thing + 5, P "surface", 8, 2, 0) \
  ENTRY(5, K, 0x23, thing + 6, P "texture", 8, 3, 0) \
  ENTRY(6, K, 0x2b, thing + 6, P "external", 8, 3, 0) \
  ENTRY(7, K, 4, thing + 6, P "unknown", 8, 3, 0)
ENTRIES_OF(2, "cuda ")
ENTRIES_OF(4, "hip ")
ENTRY(0, 1, 0, thing, "openmp region", 0, 0, 0)
#endif

int main(void) {
  puts("main");
  fflush(stdout);
  return 0;
}
