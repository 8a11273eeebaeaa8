#!/usr/bin/env python3
"""The tool on a project of three lines: what its test sees is caught, what it doesn't survives, and
nothing else is counted. And the list of equivalent ones for the real tree is up to date."""
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'harness'))
import tap  # noqa: E402  (where it is, is known only now)
from changes import changed, changes, trapped  # noqa: E402

TOOL = HERE / 'mutants.py'
FILES = {
    '.gitignore': '/out*\n',
    'meson.build': """project('small', 'c')
lib = static_library('lib', 'lib.c')
test('says', executable('says', 'says.c', link_with: lib), protocol: 'tap', suite: 'unit')
""",
    'lib.c': """int larger(int a, int b)
{
    return a > b ? a : b;
}

int odd(int a)
{
    if (a == 41)
        return 1;
    a *= 1;
    return a % 2;
}

int never(int a)
{
    return a + 5;
}
""",
    'says.c': """#include <stdio.h>
int larger(int a, int b);
int odd(int a);
int main(void)
{
    int fine = larger(3, 7) == 7 && larger(9, 7) == 9 && odd(5) == 1;
    printf("%s 1 - all\\n1..1\\n", fine ? "ok" : "not ok");
    return !fine;
}
""",
    'tools/developer.ini': "[built-in options]\nbuildtype = 'debugoptimized'\n",
    'areas.toml': """setup = []
[area.small]
files = ["lib.c"]
tests = ["s*"]
count = 1000
goal = 100
""",
    'equivalent.txt': """# comment

lib.c: larger
- return a > b ? a : b;
+ return a >= b ? a : b;
equal numbers are the same number
""",
}


def mutants(folder, *more):
    return subprocess.run([sys.executable, TOOL, '--source', folder, '--build', folder / 'out',
                           '--areas', folder / 'areas.toml',
                           '--equivalent', folder / 'equivalent.txt', *more],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, text=True)


def project(folder):
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding='utf-8')
    tap.run(['git', 'init', '-q'], cwd=folder)


def a_bug_is_caught_or_survives_and_nothing_else_counts():
    with tempfile.TemporaryDirectory(prefix='dlock-mutants-') as name:
        folder = Path(name)
        project(folder)
        done = mutants(folder)
        said = done.stdout
        for part in ('caught', 'return a > b ? a : b;  ==>  return a < b ? a : b;  says',
                     'survived', '- if (a == 41)\n+ if (a == 42)',      # nobody asks about 41
                     '1 equivalent', ' 3 unreached'):
            if part not in said:
                raise AssertionError(f'no "{part}" in:\n{said}')
        if 'a >= b' in said or 'survived' in said.split('never')[-1].split('\n')[0]:
            raise AssertionError(f'what does not count is counted:\n{said}')
        tap.equal('exit status below the goal', done.returncode, 1)
        tap.equal('the source is as it was', (folder / 'lib.c').read_text(), FILES['lib.c'])
        copy = folder / 'out-mutants' / 'tree' / 'lib.c'
        tap.equal('so is the copy', copy.read_text(), FILES['lib.c'])
        # What was asked once isn't asked again.
        again = mutants(folder).stdout
        asked = [line for line in again.splitlines() if line.startswith('#')]
        tap.equal('asked again', asked, [])
        tap.equal('the same', again.splitlines()[-1], said.splitlines()[-1])


def an_entry_that_applies_no_more_fails():
    with tempfile.TemporaryDirectory(prefix='dlock-mutants-') as name:
        folder = Path(name)
        project(folder)
        tap.equal('as it is', mutants(folder, '--only-list').stdout, '1 equivalent ones\n')
        (folder / 'lib.c').write_text(FILES['lib.c'].replace('a > b', 'b < a'), encoding='utf-8')
        stale = mutants(folder, '--only-list')
        tap.equal('exit status', stale.returncode, 1)
        if 'can be made any more' not in stale.stdout:
            raise AssertionError(stale.stdout)


def the_list_of_this_tree_applies():
    tap.run([sys.executable, TOOL, '--only-list'])


def a_script_is_changed_and_trapped():
    text = ("-- a > b\nif KEYS[1] == 'x == 1' then\n    tell(ARGV[1])\nend\n"
            "return {\n    1 + n,\n}\n")
    news = [change.new for change in changes('x.lua', text)]
    tap.equal('changes', news, ["if KEYS[1] ~= 'x == 1' then", "if KEYS[2] == 'x == 1' then",
                                'tell(ARGV[2])', '',
                                '1 - n,', '2 + n,'])
    last = changes('x.lua', text)[-1]
    tap.equal('changed', changed(text, last), text.replace('1 + n', '2 + n'))
    tap.equal('trapped', trapped(text, last),
              text.replace('return {', "do error('reached') end return {"))


def what_only_frees_memory_is_left_alone():
    text = ('void end(void)\n{\n    free(all);\n    dlk_note_free(DLK_ITEM(a, b));\n'
            '    dlk_info_free(info);\n    dlk_line_place_free(section, place);\n}\n')
    found = [(change.old, change.new) for change in changes('x.c', text)]
    tap.equal('changes', found, [('dlk_line_place_free(section, place);', ';')])


if __name__ == '__main__':
    sys.exit(tap.main([(test.__name__, test) for test in (
        a_bug_is_caught_or_survives_and_nothing_else_counts, an_entry_that_applies_no_more_fails,
        the_list_of_this_tree_applies, a_script_is_changed_and_trapped,
        what_only_frees_memory_is_left_alone)]))
