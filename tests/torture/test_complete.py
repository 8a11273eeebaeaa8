#!/usr/bin/env python3
"""Is the torture complete? Whatever libdlock and hiredis call outside of themselves is either made
to fail (redirect.syms, calls.def) or stands here, with the reason why it can't fail.

test_complete.py NM SUBJECT REDIRECT_SYMS CALLS_DEF
"""
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'harness'))
import tap  # noqa: E402

NM, SUBJECT, REDIRECT, CALLS = sys.argv[1:5]

CANT_FAIL = {
    'computes': r'mem\w+|str(?!n?dup)\w+|stpcpy|v?s?n?printf|qsort(_r)?|bcmp|explicit_bzero'
                r'|inet_pton|gai_strerror|__ctype_\w+|__errno_location|__tls_get_addr'
                r'|_GLOBAL_OFFSET_TABLE_'
                r'|__(mem\w+|explicit_bzero|v?snprintf|str\w+)_chk|__isoc(23|99)_\w+'
                r'|__xpg_strerror_r|tolower|toupper|__popcountdi2|__sched_cpucount',
    'its failure is an answer like another': r'sched_getaffinity',
    'ends the process': r'abort|exit|__assert_fail|__stack_chk_fail|__fortify_fail',
    'always there': r'clock_gettime|time|getpid|geteuid|(secure_)?getenv|sched_yield|pthread_self',
    'fails for a bad argument only': r'pthread_(mutex_(lock|unlock|destroy|consistent)'
                                     r'|mutexattr_destroy|once|join|detach|sigmask'
                                     r'|setcancelstate)|sig\w+set|freeaddrinfo',
    'ours, or the tools\'': r'torture_\w+|redisReader\w+|_Unwind_\w+|__\w*_personality_v0'
                            r'|__(asan|ubsan|tsan|gcov|gcc|sanitizer|llvm)_\w+|mangle_path'
                            r'|_ITM_\w+|__gmon_start__',
    'only for TLS, whose failures net/test_tls.c and backends/redis/test_tls.c show':
        r'(ASN1|BIO|ERR|EVP|GENERAL|OPENSSL|PEM|SSL|TLS|X509)_\w+|GENERAL_NAMES_free|access'
        r'|gmtime_r|inet_ntop|timegm',
    'only for what is loaded when it is used, and tests/api/test_loaded.c has it fail':
        r'pthread_mutex_timedlock',
    'only for etcd:, whose answers fail in conformance C5 and tests/backends/etcd':
        r'(nghttp2|protobuf_c)_\w+',
    'only for postgres:, whose server and connections fail in tests/backends/postgres':
        r'PQ\w+|getnameinfo',
    'only for zookeeper:, whose server, sessions and connections fail in tests of their own':
        r'zoo_\w+|zookeeper_\w+|ZOO_\w+|opendir|readdir(64)?|closedir|getpeername',
}


def redirected():
    return dict(line.split() for line in Path(REDIRECT).read_text().splitlines() if line)


def test_every_call_fails_or_cannot():
    shown = subprocess.run([NM, '-u', SUBJECT], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in shown.stdout.splitlines() if line.strip()}
    fine = re.compile('|'.join(CANT_FAIL.values()))
    unknown = sorted(name for name in names if not fine.fullmatch(name))
    if unknown:
        raise AssertionError(f'never made to fail, and no reason known: {", ".join(unknown)}')


def test_every_redirected_call_can_fail():
    """What is redirected without being in calls.def would be counted for nothing."""
    rows = set(re.findall(r'^CALL\((\w+),', Path(CALLS).read_text(), re.MULTILINE))
    only_counted = {'free', 'freeaddrinfo', 'munmap', 'sigfillset', 'syscall'}
    for name in redirected():
        plain = re.sub(r'^__(\w+)_chk$', r'\1', name).removesuffix('64')
        if plain not in rows | only_counted:
            raise AssertionError(f'{name} is redirected, but has no row in calls.def')


if __name__ == '__main__':
    sys.exit(tap.main([
        ('what_libdlock_calls_is_made_to_fail_or_cannot', test_every_call_fails_or_cannot),
        ('what_is_redirected_can_fail', test_every_redirected_call_can_fail),
    ]))
