"""Run one command; write ``SECONDS CPU_SECONDS PEAK_KIB STATUS`` to standard output. Not imported: ``measure`` runs it.

The peak memory of a process is never less than that of the one it was started from: Linux keeps ``ru_maxrss`` across
``execve``. So commands are started from here, an interpreter that has imported nothing, run as
``python -I -S launcher.py COMMAND...``. The command's standard output goes nowhere.
"""

import posix
import sys
import time

null = posix.open("/dev/null", posix.O_WRONLY)
actions = [(posix.POSIX_SPAWN_DUP2, null, 1)]
start = time.perf_counter()
child = posix.posix_spawn(sys.argv[1], sys.argv[1:], posix.environ, file_actions=actions)
_, status, usage = posix.wait4(child, 0)
seconds = time.perf_counter() - start
print(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, posix.waitstatus_to_exitcode(status))
