"""The Go reference, from what `go doc` says of the packages."""
import re
import subprocess
import textwrap

HEAD = '''\
# Go

How to begin is in [locks in Go](../how-to/go.md). This is what `go doc -all` says.
'''
PACKAGES = ('', 'dlocktest', 'dlockmetrics')
DECLARED = re.compile(r'^(?:func (?:\(\w* ?\*?(?P<of>\w+)\) )?(?P<func>\w+)|type (?P<type>\w+)|'
                      r'(?:var|const)\b)')


def page(top):
    text = HEAD
    for package in PACKAGES:
        folder = top / 'bindings' / 'go' / package
        said = subprocess.run([top / 'tools' / 'go', 'doc', '-all', '.'], cwd=folder, text=True,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True).stdout
        text += f'\n## Package {package or "dlock"}\n\n' + markdown(said)
    return text


def markdown(said):
    """Prose first; then declarations, each followed by its comment, which is indented."""
    prose, *declared = re.split(r'^(?=(?:CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$)', said, flags=re.M)
    text = comment(re.sub(r'^package .*\n', '', prose))
    for part in declared:
        text += ''.join(declaration(one) for one in split(part))
    return text


def split(part):
    """The declarations of a part, as lines."""
    for line in part.splitlines()[1:]:
        if DECLARED.match(line):
            if 'lines' in locals():
                yield lines
            lines = []
        if 'lines' in locals():
            lines.append(line)
    yield lines


def declaration(lines):
    """A heading, the code, the words. The code ends where its bracket does, or with its line."""
    end = 1
    if lines[0].endswith(('{', '(')):
        end = next(i for i, line in enumerate(lines) if line in ('}', ')')) + 1
    match = DECLARED.match(lines[0])
    name = '.'.join(filter(None, (match['of'], match['func'] or match['type'])))
    head = f'### `{name}`\n\n' if name else ''
    code = '\n'.join(lines[:end])
    return f'\n{head}```go\n{code}\n```\n\n' + comment(textwrap.dedent('\n'.join(lines[end:])))


def comment(text):
    """Go's comments are Markdown but for the level of headings, and for signs that mean nothing."""
    lines = []
    for line in text.strip('\n').splitlines():
        if line.startswith('# '):
            line = f'### {line[2:]}'
        elif not line.startswith('    '):
            line = re.sub(r'([*<>_\\[\]`])', r'\\\1', line)
        lines.append(line)
    return '\n'.join(lines) + '\n'
