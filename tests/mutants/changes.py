"""The small bugs: what may be changed in a line of C or Lua, and how it says that it is reached.

Lines are looked at one by one, without their comments and strings. A line may be told by its file,
the function it is in and its text alone; those that can't, as they stand twice, are left alone.
"""
import re
from dataclasses import dataclass, field

SWAPS = {
    ' == ': (' != ',), ' != ': (' == ',), ' ~= ': (' == ',),
    ' < ': (' <= ', ' > '), ' <= ': (' < ',), ' > ': (' >= ', ' < '), ' >= ': (' > ',),
    ' + ': (' - ',), ' - ': (' + ',), ' * ': (' / ',), ' / ': (' * ',), ' % ': (' / ',),
    ' += ': (' -= ',), ' -= ': (' += ',),
}
SWAPS_C = SWAPS | {'&&': ('||',), '||': ('&&',), '++': ('--',), '--': ('++',),
                   ' & ': (' | ',), ' | ': (' & ',), ' |= ': (' = ',), ' &= ': (' |= ',)}
SWAPS_LUA = SWAPS | {' == ': (' ~= ',), ' and ': (' or ',), ' or ': (' and ',), 'not ': ('',),
                     'math.min': ('math.max',), 'math.max': ('math.min',)}
WORDS = re.compile(r'\b(?:true|false)\b|(?<![\w.{])(?:0|[1-9]\d*)(?![\w.])')
FUNCTION = {'c': re.compile(r'^(?!typedef|#|struct \w+ \{)\w.*?\b(\w+)\('),
            'lua': re.compile(r'^(?:local )?function (\w+)|^(end)\b')}
# What is there for tests; what only a sanitizer would see, which is a free() or a destructor (one
# with two arguments gives back a place in a table that others see); how much room there is.
NOT_OURS = re.compile(r'\b(?:assert|static_assert|_Static_assert|DLK_POINT)\(|'
                      r'^\s*(?:dlk_\w+_)?free(?:_\w+)?\((?:\w+\(.*\)|[^,]*)\);|'
                      r'^\s*(?:static )?\w+(?: \w+)* \w+\[\d+\];$')
DROPPED_C = re.compile(r'(?:\(void\))?[\w>.()*&\[\]-]+(?:\(.*\)| [-+|&*]?= .*|\+\+|--);|'
                       r'(?:\+\+|--)[\w>.-]+;|break;|continue;')
DROPPED_LUA = re.compile(r'[\w.]+\(.*\)|[\w.]+(?:\[[^=]*\])?(?:, [\w.]+)* = .*[^,(]|break')
IF_C = re.compile(r'((?:\} else )?if \()(.*)(\)(?: \{)?)')
IF_LUA = re.compile(r'((?:else)?if )(.*)( then)')
# Turned round by another change already: a single comparison, or what begins with a "not".
TURNED = re.compile(r'(?:(?!&&|\|\|).)*(?: == | != )(?:(?!&&|\|\|).)*|!(?:(?!&&|\|\|).)*|'
                    r'(?:(?! and | or ).)*(?: == | ~= )(?:(?! and | or ).)*|'
                    r'not (?:(?! and | or ).)*')
TERNARY = re.compile(r'\? ([\w>.()-]+) : ([\w>.()-]+?)(?=[;,)]|\)+;|$)')


@dataclass(frozen=True)
class Change:
    file: str
    function: str
    old: str        # the line, without the blanks around it
    new: str
    line: int = field(compare=False, default=0)      # from 0

    def __str__(self):
        return f'{self.file}: {self.function}\n- {self.old}\n+ {self.new}'


def masked(text, lua):
    """The text with comments and what is in strings blanked, each character where it was."""
    kinds = r'--[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'' if lua else \
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:\\\n|[^\n])*'
    def blank(found):
        kept = found[0][0] if found[0][0] in '"\'' else ' '
        return kept + re.sub(r'[^\n]', '_' if kept != ' ' else ' ', found[0][1:-1]) + \
            (kept if len(found[0]) > 1 else '')
    return re.sub(kinds, blank, text, flags=re.S | re.M)


def balanced(text):
    depth = 0
    for letter in text:
        depth += (letter in '([{') - (letter in ')]}')
        if depth < 0:
            return False
    return depth == 0


def begins(before, lua):
    """Whether a statement begins behind this line, the last one with anything in it."""
    if lua:
        return not re.search(r'(?:[,(={+*/-]|\b(?:and|or|not|\.\.))$', before)
    return not before or before[-1] in '{};:' or \
        re.search(r'\belse$|^\s*(?:\} else )?(?:if|for|while) \(.*\)$', before) is not None


def variants(line, mask, before, lua):
    """Each text that may stand instead of a line."""
    for piece, others in (SWAPS_LUA if lua else SWAPS_C).items():
        for found in re.finditer(re.escape(piece), mask):
            for other in others:
                yield line[:found.start()] + other + line[found.end():]
    if not lua:
        for found in re.finditer(r'!(?=[\w(])', mask):
            yield line[:found.start()] + line[found.end():]
    for found in WORDS.finditer(mask):
        word = found[0]
        other = {'true': 'false', 'false': 'true'}.get(word) or str(int(word) + 1)
        yield line[:found.start()] + other + line[found.end():]
    for found in TERNARY.finditer(mask) if not lua else ():
        one, two = line[slice(*found.span(1))], line[slice(*found.span(2))]
        if balanced(one) and balanced(two):
            yield line[:found.start()] + f'? {two} : {one}' + line[found.end():]
    condition = (IF_LUA if lua else IF_C).fullmatch(mask)
    if condition and balanced(condition[2]) and not TURNED.fullmatch(condition[2]):
        head, what, tail = (line[slice(*condition.span(part))] for part in (1, 2, 3))
        yield f'{head}not ({what}){tail}' if lua else f'{head}!({what}){tail}'
    if (DROPPED_LUA if lua else DROPPED_C).fullmatch(mask) and balanced(mask) and \
            begins(before, lua):
        yield '' if lua else ';'


def changes(name, text):
    """Every change of a file that can be told from the others by its lines alone."""
    lua = name.endswith('.lua')
    function, before, found = '', '', []
    for number, (line, mask) in enumerate(zip(text.split('\n'), masked(text, lua).split('\n'))):
        head = FUNCTION['lua' if lua else 'c'].match(mask)
        if head:
            function = head[1] or ''
        inside = line.startswith(' ') or (lua and not head)
        if inside and mask.strip() and not NOT_OURS.search(mask):
            start, end = len(line) - len(line.lstrip()), len(line.rstrip())
            end = min(end, len(mask.rstrip()))
            for new in dict.fromkeys(variants(line[start:end], mask[start:end], before, lua)):
                if new != line[start:end]:
                    found.append(Change(name, function, line[start:end], new, number))
        before = mask.rstrip() or before
    return [change for change in found if found.count(change) == 1]


def changed(text, change):
    """The file's text with the change in it."""
    lines = text.split('\n')
    new = '(void)0;' if change.new == ';' else change.new   # no warning of an empty body
    lines[change.line] = lines[change.line].replace(change.old, new, 1)
    return '\n'.join(lines)


def trapped(text, change):
    """The file's text with what ends the program, or the script, where the change is reached."""
    lua = change.file.endswith('.lua')
    lines, masks = text.split('\n'), masked(text, lua).split('\n')
    at = change.line

    def last(number):
        return next((masks[i].rstrip() for i in range(number - 1, -1, -1) if masks[i].strip()), '')

    while at > 0 and not begins(last(at), lua):
        at -= 1
    line = lines[at]
    here = len(line) - len(line.lstrip())
    if lua:
        lines[at] = re.sub(r'^(\s*elseif )', r"\1error('reached') or ", line) \
            if line.lstrip().startswith('elseif') else "do error('reached') end " + line
        return '\n'.join(lines)
    trap = '__builtin_trap()'
    for pattern, instead in (
            (r'((?:\} else )?(?:\} )?(?:if|while|switch) \()(.*)', rf'\1{trap}, \2'),
            (r'return (.*)', rf'return {trap}, \1'),
            (r'(break;|continue;)', rf'{{ {trap}; \1 }}'),
            (r'((?:for \(|(?:const )?(?!return\b)\w+(?: \w+)* \**\w+(?:;| = |\[)).*)',
             rf'{trap}; \1'),
            (r'(.*)', rf'{trap}, \1')):
        if re.fullmatch(pattern, line[here:]):
            lines[at] = line[:here] + re.sub(pattern, instead, line[here:], count=1)
            break
    return '\n'.join(lines)
