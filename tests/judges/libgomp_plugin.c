/* A plug-in of libgomp for a device that does not exist: it says what libgomp gives it, and maps as many functions and
   variables as a test says. ``FUNCTIONS`` is a number, ``VARIABLES`` are sizes with commas, ``DEVICE`` is the name of
   the only plug-in that has a device. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct addr_pair {
  uintptr_t start, end;
};

unsigned GOMP_OFFLOAD_version(void) { return 1; }
const char *GOMP_OFFLOAD_get_name(void) { return NAME; }
unsigned GOMP_OFFLOAD_get_caps(void) { return 1u << 2; }
int GOMP_OFFLOAD_get_type(void) { return TYPE; }
int GOMP_OFFLOAD_get_num_devices(unsigned requires) { return !strcmp(getenv("DEVICE"), NAME); }
_Bool GOMP_OFFLOAD_init_device(int n) { return 1; }
_Bool GOMP_OFFLOAD_fini_device(int n) { return 1; }

int GOMP_OFFLOAD_load_image(int n, unsigned version, const void *data, struct addr_pair **table) {
  int functions = atoi(getenv("FUNCTIONS")), count = 0;
  struct addr_pair *row = *table = calloc(functions + 100, sizeof *row);
  for (; count < functions; count++, row++)
    row->start = 4096 * (count + 1), row->end = row->start + 1;
  for (char *size = strtok(strdup(getenv("VARIABLES")), ","); size; size = strtok(NULL, ","), count++, row++)
    row->start = (uintptr_t)calloc(1, atoi(size)), row->end = row->start + atoi(size);
  fprintf(stderr, "%s %#x", NAME, version);
#if TYPE == 8
  const struct {
    const struct {
      size_t size;
      const unsigned char *code;
    } *image;
    unsigned kernels;
    const struct {
      const char *name;
      int dims[3], sgprs, vgprs;
    } *rows;
    unsigned variables;
  } *record = data;
  size_t sum = 0;
  for (size_t i = 0; i < record->image->size; i++)
    sum += record->image->code[i];
  fprintf(stderr, " %zu %zu %u", record->image->size, sum, record->variables);
  for (unsigned i = 0; i < record->kernels; i++)
    fprintf(stderr, " %s", record->rows[i].name);
#else
  const struct {
    const struct {
      const char *text;
      size_t size;
    } *texts;
    unsigned count;
    const char *const *names;
    unsigned variables;
    const struct {
      const char *name;
      unsigned short dims[3];
    } *rows;
    unsigned kernels;
  } *record = data;
  size_t total = 0, sum = 0;
  for (unsigned i = 0; i < record->count; i++) {
    total += record->texts[i].size - 1;
    for (const char *letter = record->texts[i].text; *letter; letter++)
      sum += (unsigned char)*letter;
  }
  fprintf(stderr, " %zu %zu %u", total, sum, record->variables);
  for (unsigned i = 0; i < record->kernels; i++)
    fprintf(stderr, " %s", record->rows[i].name);
#endif
  fprintf(stderr, "\n");
  return count;
}

_Bool GOMP_OFFLOAD_unload_image(int n, unsigned version, const void *data) { return 1; }
void *GOMP_OFFLOAD_alloc(int n, size_t size) { return malloc(size); }
_Bool GOMP_OFFLOAD_free(int n, void *p) { return 1; }
_Bool GOMP_OFFLOAD_dev2host(int n, void *host, const void *device, size_t size) { return 1; }
_Bool GOMP_OFFLOAD_host2dev(int n, void *device, const void *host, size_t size) { return 1; }
_Bool GOMP_OFFLOAD_dev2dev(int n, void *to, const void *from, size_t size) { return 1; }
void GOMP_OFFLOAD_run(int n, void *function, void *variables, void **arguments) {
  fprintf(stderr, "region %d\n", (int)((uintptr_t)function / 4096) - 1);
}
_Bool GOMP_OFFLOAD_can_run(void *function) { return 1; }
