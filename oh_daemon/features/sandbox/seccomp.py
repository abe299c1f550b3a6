"""The system calls that sandboxed programs are refused, as programs for the kernel's filter.

Numbers are from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h, the
layout from linux/seccomp.h and linux/filter.h. `landlock` loads this module by its path.
"""

from __future__ import annotations

import os
import platform
import struct

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The AUDIT_ARCH of each, and its column in the tables."""
_X32 = 0x40000000

_CALLS = """
socket 41 198
clone 56 220
clone3 435 435
ioctl 16 29
prlimit64 302 261
"""
_OF_THE_SYSTEM = """
acct 163 89
add_key 248 217
adjtimex 159 171
bpf 321 280
chroot 161 51
clock_adjtime 305 266
clock_settime 227 112
delete_module 176 106
fanotify_init 300 262
finit_module 313 273
fsconfig 431 431
fsmount 432 432
fsopen 430 430
fspick 433 433
init_module 175 105
io_uring_enter 426 426
io_uring_register 427 427
io_uring_setup 425 425
ioperm 173 -
iopl 172 -
kcmp 312 272
kexec_file_load 320 294
kexec_load 246 104
keyctl 250 219
migrate_pages 256 238
mount 165 40
mount_setattr 442 442
move_mount 429 429
move_pages 279 239
open_by_handle_at 304 265
open_tree 428 428
open_tree_attr 467 467
perf_event_open 298 241
pidfd_getfd 438 438
pivot_root 155 41
quotactl 179 60
quotactl_fd 443 443
reboot 169 142
request_key 249 218
setdomainname 171 162
sethostname 170 161
setns 308 268
settimeofday 164 170
swapoff 168 225
swapon 167 224
syslog 103 116
umount2 166 39
unshare 272 97
userfaultfd 323 282
vhangup 153 58
"""
"""What changes the machine, or gets around what holds a program; refused at every level."""
_OF_OTHERS = """
ioprio_set 251 30
process_madvise 440 440
process_mrelease 448 448
process_vm_readv 310 270
process_vm_writev 311 271
ptrace 101 117
sched_setaffinity 203 122
sched_setattr 314 274
sched_setparam 142 118
sched_setscheduler 144 119
setpriority 141 140
mq_open 240 180
mq_unlink 241 181
msgctl 71 187
msgget 68 186
msgrcv 70 188
msgsnd 69 189
semctl 66 191
semget 64 190
semop 65 193
semtimedop 220 192
shmat 30 196
shmctl 31 195
shmget 29 194
"""
"""What reaches other processes; in namespaces of its own a program reaches its own only."""
_OF_FILES = """
chmod 90 -
chown 92 -
fchmod 91 52
fchmodat 268 53
fchmodat2 452 452
fchown 93 55
fchownat 260 54
file_setattr 469 469
fremovexattr 199 16
fsetxattr 190 7
futimesat 261 -
lchown 94 -
lremovexattr 198 15
lsetxattr 189 6
removexattr 197 14
removexattrat 466 466
setxattr 188 5
setxattrat 463 463
utime 132 -
utimensat 280 88
utimes 235 -
"""
"""What changes files and is not among Landlock's rights."""
_SIGNALS = """
kill 62 129
pidfd_send_signal 424 424
rt_sigqueueinfo 129 138
rt_tgsigqueueinfo 297 240
tgkill 234 131
tkill 200 130
"""
"""Refused where Landlock cannot keep signals inside."""

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCH = 0, 4
_NEW_NAMESPACES = 0x7E020080
"""All flags of clone(2) that begin with CLONE_NEW."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_TYPE_BITS, _RAW, _PACKET = 0xF, 3, 10
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into a terminal."""
_FILE_SYSTEM_BITS, _FILE_SYSTEM_CHANGES = 0x4000FF00, (0x40006600, 0x40005800, 0x40009400)
"""Requests that write, of the kinds `f`, `X` and 0x94: attributes, clones, snapshots."""

Instruction = tuple[int, int, int, int]
"""Its code, the jumps if true and if false, and a constant."""


def is_known() -> bool:
    """Whether there is a filter for this processor."""
    return platform.machine() in _ARCHITECTURES


def for_landlock(*, keeps_signals: bool) -> bytes:
    """Return the filter for what only reads: no sockets, and nothing that Landlock leaves open."""
    names = (_OF_THE_SYSTEM, _OF_OTHERS, _OF_FILES, "" if keeps_signals else _SIGNALS)
    return _program(names, {"socket": _refuse(_EACCES)})


def for_overlay() -> bytes:
    """Return the filter for namespaces of their own: no raw sockets and no uncommon families."""
    return _program((_OF_THE_SYSTEM,), {"socket": _common_sockets()})


def memory_file(program: bytes) -> int:
    """Return a descriptor from which bubblewrap can read a filter."""
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _program(refused_calls: tuple[str, ...], more: dict[str, list[Instruction]]) -> bytes:
    arch, column = _ARCHITECTURES[platform.machine()]
    rules = {
        "clone": [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), *_refuse(_EPERM)],
        # Its flags lie in memory, where no filter looks; without it, programs use `clone`.
        "clone3": _refuse(_ENOSYS),
        "ioctl": _changing_requests(),
        # With 0 for a process, a program sets its own limits.
        "prlimit64": [_argument(0), (_EQUAL, 1, 0, 0), *_refuse(_EPERM)],
        **more,
    }
    numbers = _numbers(_CALLS, column)
    code = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), *_refuse(_EPERM), (_LOAD, 0, 0, _NUMBER)]
    code += [(_AT_LEAST, 0, 1, _X32), *_refuse(_EPERM)]
    for table in refused_calls:
        for number in _numbers(table, column).values():
            code += [(_EQUAL, 0, 1, number), *_refuse(_EPERM)]
    for name, rule in rules.items():
        body = [*rule, (_RETURN, 0, 0, _ALLOW)]
        code += [(_EQUAL, 0, len(body), numbers[name]), *body]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _numbers(table: str, column: int) -> dict[str, int]:
    rows = [line.split() for line in table.strip().splitlines()]
    return {row[0]: int(row[1 + column]) for row in rows if row[1 + column] != "-"}


def _refuse(number: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _ERRNO | number)]


def _argument(position: int) -> Instruction:
    """Load the lower half of an argument; both processors have it first."""
    return (_LOAD, 0, 0, 16 + 8 * position)


def _changing_requests() -> list[Instruction]:
    code = [_argument(1)]
    for request in _TERMINAL_INPUT:
        code += [(_EQUAL, 0, 1, request), *_refuse(_EPERM)]
    code.append((_AND, 0, 0, _FILE_SYSTEM_BITS))
    for request in _FILE_SYSTEM_CHANGES:
        code += [(_EQUAL, 0, 1, request), *_refuse(_EPERM)]
    return code


def _common_sockets() -> list[Instruction]:
    # glibc reads the list of interfaces from a raw socket of netlink's first protocol.
    netlink = [_argument(2), (_EQUAL, 1, 0, 0), *_refuse(_EACCES), (_RETURN, 0, 0, _ALLOW)]
    common = [_argument(1), (_AND, 0, 0, _TYPE_BITS)]
    for kind in (_RAW, _PACKET):
        common += [(_EQUAL, 0, 1, kind), *_refuse(_EACCES)]
    code = [_argument(0), (_EQUAL, 0, len(netlink), _NETLINK), *netlink]
    code += [(_EQUAL, 3, 0, _UNIX), (_EQUAL, 2, 0, _INET), (_EQUAL, 1, 0, _INET6)]
    return [*code, *_refuse(_EACCES), *common]
