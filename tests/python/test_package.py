"""What a user installs: the wheel, its types, its examples, and what the README says of it."""
import ast
import inspect
import json
import os
import pydoc
import re
import subprocess
import textwrap
import unittest
import zipfile
from pathlib import Path

import dlock
import dlock._keywords
import dlock._settings
import dlock.aio
from world import new_file, shared_etcd, shared_redis

TOP = Path(os.environ['DLK_TOP'])
FOLDER = Path(os.environ['DLK_FOLDER'])
TOOLS = FOLDER / 'venv' / 'bin'
EXAMPLES = TOP / 'bindings' / 'python' / 'examples'
WHEEL = next((FOLDER / 'dist').glob('*.whl'))
PAGES = [TOP / 'README.md', TOP / 'bindings/python/README.md',
         *sorted((TOP / 'docs').rglob('*.md'))]
LISTING = re.compile(r'<!-- (\S+) -->\n```python\n(.*?)^```$', re.M | re.S)


def run(argv, **options):
    done = subprocess.run([str(each) for each in argv], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f'{argv}: exit {done.returncode}\n{done.stdout}')
    return done.stdout


def in_fresh_environment(program, *args, **env):
    """Runs a program where there is the wheel and nothing else: no compiler, no library path."""
    return run([FOLDER / 'fresh' / 'bin' / 'python', '-W', 'error', program, *args],
               env={'PATH': '/nonexistent', 'HOME': '/nonexistent', **env})


class Wheel(unittest.TestCase):
    def test_its_description_has_only_links_that_lead_somewhere_on_the_index(self):
        with zipfile.ZipFile(WHEEL) as packed:
            name, = [each for each in packed.namelist() if each.endswith('/METADATA')]
            _, _, page = packed.read(name).decode().partition('\n\n')
        self.assertEqual(page.strip(), (TOP / 'bindings/python/README.md').read_text().strip())
        links = re.findall(r'\]\(([^)]*)\)', page)
        self.assertGreater(len(links), 3)
        for link in links:
            at, _, path = link.partition('/blob/main/')
            self.assertEqual(at, 'https://github.com/libdlock/libdlock')
            self.assertTrue((TOP / path).exists(), link)

    def test_ten_lines_run_in_a_fresh_environment_in_memory(self):
        self.assertIn('order 42 shipped', in_fresh_environment(EXAMPLES / 'ten_lines.py', 'mem:'))

    def test_ten_lines_run_in_a_fresh_environment_on_a_file(self):
        said = in_fresh_environment(EXAMPLES / 'ten_lines.py', new_file())
        self.assertIn('order 42 shipped', said)

    def test_ten_lines_run_in_a_fresh_environment_on_redis(self):
        said = in_fresh_environment(EXAMPLES / 'ten_lines.py', shared_redis().url)
        self.assertIn('order 42 shipped', said)

    def test_ten_lines_run_in_a_fresh_environment_on_etcd(self):
        said = in_fresh_environment(EXAMPLES / 'ten_lines.py', shared_etcd().url)
        self.assertIn('order 42 shipped', said)

    def test_without_libnghttp2_a_client_of_etcd_says_how_to_get_it_and_others_work(self):
        (FOLDER / 'none').mkdir(exist_ok=True)
        (FOLDER / 'none' / 'libnghttp2.so.14').write_bytes(b'')
        without = {'LD_LIBRARY_PATH': str(FOLDER / 'none')}
        ten_lines = EXAMPLES / 'ten_lines.py'
        with self.assertRaisesRegex(AssertionError, r'NotSupportedError.*install libnghttp2 1\.40'):
            in_fresh_environment(ten_lines, 'etcd://127.0.0.1', **without)
        self.assertIn('order 42 shipped', in_fresh_environment(ten_lines, 'mem:', **without))

    def test_module_needs_nothing_but_the_c_library_and_is_of_the_stable_abi(self):
        self.assertRegex(WHEEL.name, r'^libdlock-[\d.]+-cp3\d+-abi3-linux_')
        modules = [name for name in zipfile.ZipFile(WHEEL).namelist() if '.so' in name]
        self.assertEqual(modules, ['dlock/_native.abi3.so'])
        with zipfile.ZipFile(WHEEL) as wheel:
            wheel.extract(modules[0], FOLDER / 'unpacked')
        dynamic = run(['readelf', '--dynamic', FOLDER / 'unpacked' / modules[0]])
        needed = set(re.findall(r'NEEDED.*\[(.*)\]', dynamic))
        self.assertLessEqual(needed, {'libc.so.6', 'ld-linux-x86-64.so.2', 'libpthread.so.0'})
        self.assertNotRegex(dynamic, 'RPATH|RUNPATH')

    def test_wheel_has_the_licence_of_each_library_inside_and_is_stripped(self):
        with zipfile.ZipFile(WHEEL) as wheel:
            names = {name.rpartition('/')[2] for name in wheel.namelist() if '/licenses/' in name}
            wheel.extract('dlock/_native.abi3.so', FOLDER / 'unpacked')
        self.assertEqual(names, {'LICENSE', 'hiredis.txt', 'nghttp2.txt', 'openssl.txt',
                                 'protobuf-c.txt', 'zookeeper.txt'})
        sections = run(['readelf', '--sections', FOLDER / 'unpacked/dlock/_native.abi3.so'])
        self.assertNotRegex(sections, r'\.symtab|\.debug_info')

    def test_module_shows_no_symbol_but_its_own(self):
        symbols = run(['nm', '--dynamic', '--defined-only',
                       Path(dlock._native.__file__)]).split()[2::3]
        self.assertEqual(symbols, ['PyInit__native'])

    def test_auditwheel_finds_nothing_to_graft(self):
        env = {**os.environ, 'PATH': f'{TOOLS}:{os.environ["PATH"]}'}
        said = ' '.join(run([TOOLS / 'auditwheel', 'show', WHEEL], env=env).split())
        self.assertRegex(said, r'consistent with the following platform tag: "manylinux_2_\d+')
        self.assertNotIn('libhiredis', said)

    def test_sdist_carries_the_c_library_and_the_licence(self):
        sdist = next((FOLDER / 'dist').glob('*.tar.gz'))
        names = run(['tar', '-tzf', sdist])
        for name in ('libdlock/include/dlock/dlock.h', 'LICENSE', 'bindings/python/native.i'):
            self.assertIn(f'/{name}\n', names)

    def test_version_is_that_of_the_library(self):
        self.assertEqual(dlock.__version__, dlock.version())
        self.assertIn(f'-{dlock.version()}-', WHEEL.name)


class Types(unittest.TestCase):
    def mypy(self, *args):
        return run([TOOLS / 'python', '-m', 'mypy', '--strict', '--cache-dir', FOLDER / 'mypy',
                    *args], cwd=EXAMPLES)

    def test_package_and_examples_pass_mypy_strict(self):
        examples = [path.name for path in sorted(EXAMPLES.glob('*.py'))]
        self.assertIn('Success', self.mypy('-p', 'dlock'))
        self.assertIn('Success', self.mypy(*examples))

    def test_mypy_refuses_a_setting_that_is_none(self):
        wrong = FOLDER / 'wrong.py'
        wrong.write_text('import dlock\ndlock.Client("mem:", tll=3)\n')
        with self.assertRaisesRegex(AssertionError, 'tll'):
            self.mypy(wrong)

    def test_stub_of_the_native_module_is_complete(self):
        there = {name for name in vars(dlock._native) if not name.startswith('_')}
        there -= {name for name in there if name.startswith('SWIG')}
        stub = (TOP / 'bindings/python/dlock/_native.pyi').read_text(encoding='utf-8')
        told = set(re.findall(r'^def (\w+)\(|^(\w+): Final', stub, re.M))
        self.assertEqual({one or other for one, other in told}, there)

    def test_typed_settings_are_those_of_the_library(self):
        typed = set(dlock._keywords.ClientSettings.__annotations__)
        typed |= set(dlock._keywords.LockSettings.__annotations__)
        known = dlock._settings.keywords()
        self.assertLessEqual(typed, set(known))
        # Each key can be given; but for those that the classes take as parameters.
        keys = {key for key, _ in known.values()} - {known[name][0] for name in typed}
        self.assertEqual(keys, {'cond.owner', 'lock.owner', 'lock.permits', 'lock.take'})

    def test_typed_settings_are_what_the_librarys_table_makes_of_them(self):
        file = TOP / 'bindings/python/dlock/_keywords.py'
        self.assertEqual(file.read_text(encoding='utf-8'),
                         run([TOOLS / 'python', TOP / 'tools/python-settings']),
                         f'run tools/python-settings with {TOOLS}/python')

    def test_help_shows_what_each_setting_means(self):
        table = json.loads(dlock._native.conf_dump(None))
        for scope, told in (('client', dlock.Client), ('client', dlock.aio.Client),
                            ('lock', dlock.Lock), ('lock', dlock.aio.Lock)):
            page = ' '.join(pydoc.render_doc(told, renderer=pydoc.plaintext).split())
            for section, keys in table.items():
                for key, about in keys.items():
                    if about['scope'] != scope or section == 'cond' or (
                            section == 'lock' and key in ('owner', 'permits', 'take')):
                        continue
                    with self.subTest(told=told, key=f'{section}.{key}'):
                        self.assertIn(about['doc'].split(': ')[0], page.replace(' | ', ' '))


class Documentation(unittest.TestCase):
    def listings(self):
        for page in PAGES:
            for match in LISTING.finditer(page.read_text(encoding='utf-8')):
                yield page.relative_to(TOP), *match.groups()

    def test_listings_are_pieces_of_the_examples(self):
        seen = set()
        for page, place, code in self.listings():
            name, _, region = place.partition(':')
            text = (TOP / name).read_text(encoding='utf-8')
            if region:
                text = re.search(rf'^ *# doc: {region}\n(.*?)^ *# end: {region}$', text,
                                 re.M | re.S)[1]
            with self.subTest(page=str(page), place=place):
                self.assertEqual(code, textwrap.dedent(text).strip('\n') + '\n')
            seen.add(place)
        self.assertIn('bindings/python/examples/ten_lines.py:body', seen)

    def test_other_python_on_the_pages_compiles_at_least(self):
        for page in PAGES:
            for code in re.findall(r'^```py(?:thon)?\n(.*?)^```$',
                                   page.read_text(encoding='utf-8'), re.M | re.S):
                with self.subTest(page=page.name, code=code):
                    compile(code, page.name, 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def test_reference_is_what_the_docstrings_say(self):
        page = TOP / 'docs' / 'reference' / 'python.md'
        said = run([TOOLS / 'python', TOP / 'tools' / 'python-page'])
        self.assertEqual(page.read_text(encoding='utf-8'), said,
                         f'run tools/python-page with {TOOLS}/python')

    def test_examples_run(self):
        for path in sorted(EXAMPLES.glob('*.py')):
            for url in ('mem:', new_file(), shared_redis().url):
                with self.subTest(example=path.name, url=url):
                    run([TOOLS / 'python', '-X', 'dev', '-W', 'error', path, url])

    def test_everything_public_has_a_docstring(self):
        for name in dlock.__all__:
            thing = getattr(dlock, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            with self.subTest(name=name):
                self.assertTrue(inspect.getdoc(thing))
            if not inspect.isclass(thing):
                continue
            for method, function in vars(thing).items():
                if not method.startswith('_') and callable(function):
                    with self.subTest(name=f'{name}.{method}'):
                        self.assertTrue(inspect.getdoc(function))


if __name__ == '__main__':
    unittest.main()
