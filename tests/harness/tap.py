"""TAP for the tests written in Python: each function is one subtest and its name the promise."""
import subprocess
import traceback


class Skip(Exception):
    """The machine lacks what this test needs; the text says what."""


def run(argv, **options):
    """Runs a command without a terminal and returns its output; raises with it on failure."""
    options.setdefault('stdin', subprocess.DEVNULL)
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', check=False,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, argv))}: exit {done.returncode}\n{done.stdout}')
    return done.stdout


def equal(what, got, want):
    if got != want:
        raise AssertionError(f'{what}: got {got!r}, want {want!r}')


def main(tests):
    """Runs (name, function) pairs and returns the exit code of the program."""
    failures = 0
    for number, (name, test) in enumerate(tests, 1):
        try:
            test()
            print(f'ok {number} - {name}', flush=True)
        except Skip as why:
            print(f'ok {number} - {name} # SKIP {why}', flush=True)
        except Exception as why:  # whatever it is, it is this test's failure and not the others'
            failures += 1
            text = str(why) if isinstance(why, AssertionError) else traceback.format_exc()
            print(f'not ok {number} - {name}')
            for line in text.splitlines():
                print(f'# {line}', flush=True)
    print(f'1..{len(tests)}', flush=True)
    return 1 if failures else 0
