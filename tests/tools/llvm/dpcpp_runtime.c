// Stands for DPC++'s runtimes: prints what it is given, record by record. Layouts: sycl/source/detail/compiler.hpp of
// intel/llvm (images of version 2, with a manifest), and LLVM's omptarget.h for the descriptors of other kinds.
#include <stdint.h>
#include <stdio.h>

typedef struct { void *address; const char *name; uint64_t size; int32_t flags, reserved; } Entry;
typedef struct { const char *name; const unsigned char *value; uint32_t type; uint64_t size; } Property;
typedef struct { const char *name; const Property *begin, *end; } Set;
typedef struct {
  uint16_t version;
  uint8_t kind, format;
  const char *target, *compile, *link, *manifest, *manifest_end, *begin, *end;
  const Entry *entries, *entries_end;
  const Set *sets, *sets_end;
} Image;
typedef struct { uint16_t version, count; const Image *images; const Entry *entries, *entries_end; } Descriptor;
typedef struct { const char *begin, *end; const Entry *entries, *entries_end; } PlainImage;
typedef struct { int32_t count; const PlainImage *images; const Entry *entries, *entries_end; } PlainDescriptor;

static void text(const char *word, const char *begin, const char *end) {
  printf("%s %.*s\n", word, (int)(end - begin), begin);
}

void __sycl_register_lib(const Descriptor *given) {
  printf("sycl version %d: %d\n", given->version, given->count);
  for (const Image *image = given->images; image != given->images + given->count; ++image) {
    printf("image version %d kind %d format %d\n", image->version, image->kind, image->format);
    printf("target %s compile %s link %s\n", image->target, image->compile, image->link);
    text("manifest", image->manifest, image->manifest_end);
    text("bytes", image->begin, image->end);
    for (const Entry *entry = image->entries; entry != image->entries_end; ++entry)
      printf("entry %s %p %d\n", entry->name, entry->address, (int)entry->size);
    for (const Set *set = image->sets; set != image->sets_end; ++set) {
      printf("[%s]\n", set->name);
      for (const Property *property = set->begin; property != set->end; ++property) {
        printf("%s=%d|%d", property->name, (int)property->type, (int)property->size);
        for (uint64_t at = 0; property->value && at < property->size; ++at)
          printf(" %02x", property->value[at]);
        printf("\n");
      }
    }
  }
}

void __sycl_unregister_lib(const Descriptor *given) { printf("sycl gone: %d\n", given->count); }

void __tgt_register_lib(const PlainDescriptor *given) {
  printf("tgt: %d\n", given->count);
  for (const PlainImage *image = given->images; image != given->images + given->count; ++image) {
    text("bytes", image->begin, image->end);
    printf("entries %d\n", image->entries == given->entries && given->entries == given->entries_end);
  }
}

void __tgt_unregister_lib(const PlainDescriptor *given) { printf("tgt gone: %d\n", given->count); }

int main(void) { return 0; }
