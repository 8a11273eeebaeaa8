"""The names of the public API as its three witnesses tell them: header, version script, library.

The version script may name objects at once (dlock_error_*): a pattern is as good as a name, as
long as no more comes out of it than the header promises."""
import re
import subprocess


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*', ' ', text, flags=re.DOTALL)


def in_header(text):
    """Every function that is declared with DLOCK_API."""
    text = without_comments(text)
    text = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$', '', text, flags=re.MULTILINE)
    return set(re.findall(r'\bDLOCK_API\b[^;(]*?\b(dlock_\w+)\s*\(', text))


def in_map(text):
    """Every name that a version node makes global, and the node it stands in."""
    found = {}
    text = re.sub(r'#[^\n]*', ' ', without_comments(text))
    for node, body in re.findall(r'(\w[\w.]*)\s*\{(.*?)\}', text, re.DOTALL):
        public = re.split(r'\blocal\s*:', body)[0]
        for name in re.split(r'[;\s]+', re.sub(r'\bglobal\s*:', ' ', public)):
            if name:
                found[name] = node
    return found


def in_library(path):
    """Every defined dynamic symbol of the library, and the version it is bound to."""
    shown = subprocess.run(['readelf', '--dyn-syms', '--wide', path], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    found = {}
    for line in shown.splitlines():
        columns = line.split()
        if len(columns) < 8 or columns[4] not in ('GLOBAL', 'WEAK') or columns[6] in ('UND', 'ABS'):
            continue
        name, _, version = columns[7].partition('@')
        found[name] = version.lstrip('@')
    return found


def undescribed(abi):
    """Symbols in abidw's output of which it knows the name only. Two functions folded into one
    (-fipa-icf) or a missing -g do that, and abidiff then compares nothing about them."""
    symbols = set(re.findall(r"<elf-symbol name='(\w+)'", abi))
    return sorted(symbols - set(re.findall(r"elf-symbol-id='(\w+)@", abi)))
