/* What the start-up code of Microsoft's C runtime does for a program, by symbols that a linker for MSVC makes:
   constructors between .CRT$XCA and .CRT$XCZ, main, functions given to atexit, and terminators of .CRT$XT. */
typedef void (*function)(void);

#define BOUND(NAME, SECTION) static const function NAME __attribute__((used, section(SECTION))) = 0
BOUND(first, ".CRT$XCA");
BOUND(last, ".CRT$XCZ");
BOUND(first_end, ".CRT$XTA");
BOUND(last_end, ".CRT$XTZ");

int main(void);
__declspec(dllimport) void __stdcall ExitProcess(unsigned);

static function at_exit[32];
static int count;

int atexit(function f) { at_exit[count++] = f; return 0; }

static void run(const function *at, const function *end) {
  for (; at < end; ++at)
    if (*at) (*at)();
}

void start(void) {
  run(&first, &last);
  main();
  while (count) at_exit[--count]();
  run(&first_end, &last_end);
  ExitProcess(0);
}
