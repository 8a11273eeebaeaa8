"""How Sphinx builds the site. tools/docs stages its sources (stage.py) and says where they are."""
import html
import os
import sys
import types
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

TOP = Path(os.environ['DLK_TOP'])
sys.path.insert(0, str(TOP / 'bindings' / 'python'))

project = 'libdlock'
author = 'The libdlock authors'
version = release = os.environ['DLK_VERSION']

extensions = ['myst_parser', 'breathe', 'sphinx.ext.autodoc']
breathe_projects = {'libdlock': os.environ['DLK_XML']}
breathe_default_project = 'libdlock'
breathe_domain_by_extension = {'h': 'c'}
breathe_show_include = False
breathe_order_parameters_first = True

# As GitHub makes them, for the pages are read there, too.
myst_heading_anchors = 4
myst_fence_as_directive = ['mermaid']

html_theme = 'furo'
html_title = 'libdlock'
html_static_path = [str(Path(__file__).parent / 'static'), os.environ['DLK_MERMAID']]
html_css_files = ['site.css']
html_js_files = ['site.js']
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {'source_repository': os.environ['DLK_SOURCE'], 'source_branch': 'main',
                      'source_directory': 'docs/', 'top_of_page_buttons': []}
highlight_language = 'text'

autodoc_member_order = 'bysource'
autodoc_typehints = 'signature'
autodoc_mock_imports = ['redis', 'kazoo', 'prometheus_client', 'opentelemetry', 'pytest',
                        'typing_extensions']
add_module_names = False


class Native(types.ModuleType):
    """In the place of the package's C part, of which the documentation needs names only. Where a
    value is asked for at import, the version that was built for, any number does."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return 0 if name.isupper() else lambda *_arguments: 0


def constants():
    """What _native.pyi says of numbers: they become members of enums, which must differ."""
    for line in (TOP / 'bindings/python/dlock/_native.pyi').read_text().splitlines():
        name, _, value = line.partition(': Final = ')
        if value:
            yield name, int(value)


sys.modules['dlock._native'] = native = Native('dlock._native')
native.__dict__.update(constants())


class Mermaid(Directive):
    """A diagram, drawn by the browser (static/site.js)."""
    has_content = True

    def run(self):
        text = html.escape('\n'.join(self.content))
        return [nodes.raw('', f'<pre class="mermaid">\n{text}\n</pre>', format='html')]


def without_at(_app, _what, _name, _thing, _options, lines):
    """``@name`` in a docstring is a parameter's name."""
    import re
    lines[:] = [re.sub(r'(?<![\w@`.])@(\w+)', r'``\1``', line) for line in lines]


def setup(app):
    app.add_directive('mermaid', Mermaid)
    app.connect('autodoc-process-docstring', without_at)
