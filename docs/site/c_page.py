"""The C reference: the header's own words, and for each of its sections a page of what it declares,
whose comments Breathe reads from Doxygen."""
import re
import textwrap

SECTION = re.compile(r'^/\* ---- (.*?) -+ \*/$', re.M)
DECLARED = re.compile(
    r'^(?:(?P<function>DLOCK_API\b[^;(]*?\*?(?P<name>dlock_\w+)\()'
    r'|typedef enum (?P<enum>dlock_\w+) \{'
    r'|typedef struct (?P<struct>dlock_\w+) \{'
    r'|typedef (?:struct \w+ (?P<opaque>dlock_\w+)|[^;{]*?\(?(?P<typedef>dlock_\w+_fn)\)?\([^;]*);'
    r'|#define (?P<define>DLOCK_\w+))', re.M)
DIRECTIVES = {'function': 'function', 'enum': 'enum', 'struct': 'struct', 'opaque': 'typedef',
              'typedef': 'typedef', 'define': 'define'}
HIDDEN = {'DLOCK_H', 'DLOCK_API', 'DLOCK_CHECKED'}


def prose(text):
    """The comment at the top of the header: its tables are Markdown's, its headings in capitals."""
    body = re.search(r'/\*\*\n \* @file dlock\.h\n(.*?)^ \*/$', text, re.M | re.S)[1]
    lines = []
    for line in re.sub(r'^ \* ?', '', body, flags=re.M).splitlines():
        if re.fullmatch(r'[A-Z][A-Z /()a-z]*', line) and line.split()[0].isupper():
            line = f'## {line.capitalize().replace("i/o", "I/O")}'
        elif line.startswith('  |') or (line.startswith('  ') and not line.startswith('    ')):
            line = line[2:]
        lines.append(re.sub(r'(?<![\w*`])(_\w+)', r'`\1`', line) if '|' in line or '_' in line
                     and not line.startswith('    ') else line)
    return '\n'.join(lines)


def declared(part):
    """What a section of the header declares, in its order: (directive, name)."""
    for match in DECLARED.finditer(part):
        kind = match.lastgroup if match.lastgroup != 'name' else 'function'
        name = match['name'] or match[kind]
        if name not in HIDDEN and not name.endswith('_'):
            yield DIRECTIVES[kind], name


def section(title, part):
    text = [title, '=' * len(title), '']
    for directive, name in declared(part):
        text += [f'.. doxygen{directive}:: {name}'] + ['   :members:'] * (directive == 'struct')
        text += ['']
    return '\n'.join(text)


def pages(header):
    """Place -> text."""
    text = header.read_text(encoding='utf-8')
    first, *rest = SECTION.split(text)
    parts = {'Types and codes': first[first.index('#ifndef DLOCK_H'):],
             **dict(zip(rest[::2], rest[1::2]))}
    made = {f'reference/c/{re.sub("[^a-z]+", "-", title.lower()).strip("-")}.rst':
            section(title, part) for title, part in parts.items()}
    names = '\n'.join(place.removeprefix('reference/').removesuffix('.rst') for place in made)
    made['reference/c.md'] = textwrap.dedent('''\
        # C

        One header, `dlock/dlock.h`; this is what it says. Each function has a man page, too
        (`man dlock_lock_acquire`).

        ```{{toctree}}
        :maxdepth: 1

        {names}
        ```

        {prose}
        ''').replace('{{', '{').replace('}}', '}').replace('{names}', names).replace(
            '{prose}', prose(text))
    return made
