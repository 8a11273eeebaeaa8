"""Bad input, and what answers it: an exception that says what is wrong, and nothing worse."""
import copy
import pickle
import unittest
from datetime import timedelta

import dlock
from dlock import _native as native
from dlock import errors
from world import new_name


class WithClient(unittest.TestCase):
    def setUp(self):
        self.client = dlock.Client('mem:', log_level='off')
        self.addCleanup(self.client.close)
        self.lock = self.client.lock(new_name())

    def refuses(self, kind, text, call, *args, **kwargs):
        with self.assertRaisesRegex(kind, text):
            call(*args, **kwargs)


class Arguments(WithClient):
    def test_names_with_nul_or_surrogates_are_refused_by_the_parameters_name(self):
        makers = (self.client.lock, self.client.rlock, self.client.rwlock,
                  self.client.semaphore, self.client.election)
        for make in makers:
            for name, text in (('a\0b', 'name: .*NUL'), ('\ud800', 'name: .*surrogate'),
                               ('', 'name: .*empty')):
                with self.subTest(make=make.__name__, name=name[:5]):
                    self.refuses(ValueError, text, make, name)
            for name in (b'bytes', 7, None):
                with self.subTest(make=make.__name__, name=name):
                    self.refuses(TypeError, 'name: a str', make, name)
        self.refuses(ValueError, '1024', self.client.lock, 'x' * 1025)

    def test_other_texts_are_refused_by_the_parameters_name(self):
        self.refuses(ValueError, 'url: .*NUL', dlock.Client, 'mem:\0')
        self.refuses(TypeError, 'url: a str', dlock.Client, None)
        self.refuses(ValueError, 'ticket: .*NUL', self.client.import_hold, 'a\0')
        self.refuses(ValueError, 'owner: .*NUL', self.lock.break_, 'a\0')
        self.refuses(ValueError, 'prefix: .*NUL', self.client.list, 'a\0')
        self.refuses(ValueError, 'data: .*NUL', self.client.election, 'x', data='a\0')
        self.refuses(ValueError, 'auth_password: .*NUL', dlock.Client, 'mem:',
                     auth_password='a\0')

    def test_blocking_false_with_a_timeout_is_a_value_error(self):
        for timeout in (0, 1, 2.5, timedelta(seconds=1)):
            self.refuses(ValueError, 'timeout', self.lock.acquire, False, timeout)
        self.assertTrue(self.lock.acquire(False, -1))
        self.assertFalse(self.lock.acquire(False, None))

    def test_timeouts_are_those_of_threading(self):
        for timeout in (-2, -0.5, timedelta(seconds=-1)):
            self.refuses(ValueError, 'timeout', self.lock.acquire, timeout=timeout)
        self.refuses(ValueError, 'timeout: not a number', self.lock.acquire, timeout=float('nan'))
        self.refuses(OverflowError, 'timeout', self.lock.acquire, timeout=1e12)
        self.refuses(OverflowError, 'timeout', self.lock.acquire, timeout=float('inf'))
        for timeout in ('1', [], True):
            self.refuses(TypeError, 'timeout: a number', self.lock.acquire, timeout=timeout)
        self.assertTrue(self.lock.acquire(timeout=0.0001))
        self.assertFalse(self.lock.acquire(timeout=timedelta(milliseconds=1)))

    def test_settings_say_what_is_wrong_with_them(self):
        lock = self.client.lock
        self.refuses(TypeError, "'tll' is no setting; did you mean 'ttl'", lock, 'x', tll=3)
        self.refuses(TypeError, 'ttl: a number of seconds', lock, 'x', ttl='3')
        self.refuses(TypeError, 'fair: a str', lock, 'x', fair=[])
        self.refuses(dlock.ConfigError, 'lock.ttl_ms.*range', lock, 'x', ttl=0.01)
        self.refuses(dlock.ConfigError, 'redis.layout.*none of', lock, 'x', redis_layout='no')
        self.refuses(dlock.ConfigError, 'client.prefix', lock, 'x', prefix='no')
        self.refuses(TypeError, 'permits: an int', self.client.semaphore, 'x', '3')
        self.refuses(TypeError, 'take: an int', self.client.semaphore, 'x', 3, take=1.5)

    def test_settings_may_be_written_in_every_way(self):
        ways = ({'ttl': 7}, {'ttl_ms': 7000}, {'lock_ttl': 7.0}, {'lock_ttl_ms': 7000},
                {'ttl': timedelta(seconds=7)}, {'ttl': 7, 'fair': None})
        for settings in ways:
            with self.subTest(settings=settings):
                with self.client.lock(new_name(), **settings) as held:
                    self.assertTrue(6 < held.remaining <= 7, held.remaining)

    def test_what_a_client_and_a_lock_go_by_can_be_asked(self):
        url = 'mem:?client.lazy=on&lock.ttl_ms=9000&lock.fair=true&client.prefix=true'
        with dlock.Client(url, ttl=8, log_level='off') as client:
            said = client.settings
            self.assertEqual([said['lock.ttl_ms'], said['lock.fair'], said['client.lazy']],
                             [8000, True, True])
            self.assertEqual(said['client.prefix'], 'true')   # a text, and no bool
            self.assertEqual(set(said), {key for key, _ in dlock._settings.keywords().values()})
            lock = client.lock('x', max_hold=9, reentrant=False)
            self.assertEqual([lock.settings[key] for key in (
                'lock.ttl_ms', 'lock.max_hold_ms', 'lock.reentrant')], [8000, 9000, False])
            self.assertNotIn('client.lazy', lock.settings)
            self.refuses(dlock.NotSupportedError, 'members', lambda: client.multi([lock]).settings)

    def test_connecting_is_left_for_later_where_the_url_or_a_setting_says_so(self):
        nobody = 'redis://127.0.0.1:1'
        for url, settings in ((nobody + '?client.lazy=on', {}), (nobody, {'lazy': True}),
                              (nobody + '?client.lazy=0', {'client_lazy': 'on'})):
            with self.subTest(url=url, settings=settings):
                dlock.Client(url, **settings).close()
        for url, settings in ((nobody, {}), (nobody + '?client.lazy=on', {'lazy': False})):
            with self.subTest(url=url, settings=settings):
                self.refuses(dlock.BackendError, '', dlock.Client, url, **settings)

    def test_things_of_another_type_are_refused(self):
        self.refuses(TypeError, 'client: a dlock.Client', dlock.Lock, 'mem:', 'x')
        self.refuses(TypeError, 'client: a dlock.Client', dlock.Semaphore, None, 'x', 1)
        self.refuses(TypeError, 'locks: plain locks', dlock.MultiLock, [self.client])
        self.refuses(TypeError, 'locks: a sequence', self.client.multi, 'ab')
        self.refuses(ValueError, 'locks: at least one', self.client.multi, [])
        self.refuses(ValueError, '', self.client.multi, ['same', 'same'])
        self.refuses(TypeError, 'limit: an int', self.client.list, '', '1')
        self.refuses(TypeError, 'run: ', dlock.Guard, run=None, commit=print)
        self.refuses(TypeError, 'lead: ', self.client.election('x').run, None)
        with self.lock as held:
            self.refuses(TypeError, 'callback: ', held.on_lost, 1)
            self.refuses(TypeError, 'ttl: ', held.extend, '1')
            self.refuses(TypeError, 'index: ', held.member_token, 'a')

    def test_decorators_refuse_what_would_run_later(self):
        def generator():
            yield

        async def coroutine():
            pass
        self.refuses(TypeError, 'generator', self.lock, generator)
        self.refuses(TypeError, 'coroutine', self.lock, coroutine)


class Life(WithClient):
    def test_release_of_what_is_not_held_is_a_runtime_error(self):
        self.refuses(RuntimeError, 'isn\'t held', self.lock.release)
        self.lock.acquire()
        self.lock.release()
        self.refuses(dlock.NotHeldError, 'isn\'t held', self.lock.release)

    def test_a_hold_is_released_once(self):
        hold = self.lock.hold()
        hold.release()
        self.refuses(dlock.NotHeldError, 'released', hold.release)
        self.refuses(dlock.NotHeldError, '', hold.check)
        self.refuses(dlock.NotHeldError, '', hold.verify)
        self.refuses(dlock.NotHeldError, '', hold.extend, 5)
        self.assertEqual((hold.state, hold.remaining, hold.lost), ('released', 0, False))

    def test_after_close_everything_says_so(self):
        hold = self.lock.hold()
        self.client.close()
        self.client.close()
        calls = (self.lock.acquire, self.lock.hold, self.lock.inspect, self.lock.locked,
                 self.lock.wait_idle, self.lock.break_, self.lock.revoke, self.client.list,
                 self.client.doctor, self.client.connect, self.lock.__enter__)
        for call in calls:
            with self.subTest(call=call.__name__):
                self.refuses(dlock.ClosedError, '', call)
        self.assertEqual(hold.state, 'released')
        self.assertTrue(self.client.closed)
        self.assertFalse(self.lock.owned())
        repr(self.lock), repr(hold), repr(self.client)

    def test_nothing_is_pickled_or_copied(self):
        hold = self.lock.hold()
        things = (self.client, self.lock, hold, self.client.election('x'),
                  self.client.multi(['y', 'z']))
        for thing in things:
            for make in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.subTest(thing=thing, make=make.__name__):
                    self.refuses(TypeError, 'cannot pickle', make, thing)
        hold.release()

    def test_exceptions_can_be_pickled(self):
        for name in errors.__all__:
            error = getattr(errors, name)('text', lock_name='n', backend='b')
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.code, again.lock_name, again.backend),
                             (type(error), 'text', error.code, 'n', 'b'))


class Classes(unittest.TestCase):
    def test_each_code_has_a_class_of_its_own(self):
        codes = [code for name, code in vars(native).items()
                 if isinstance(code, int) and native.errname(code) == f'DLOCK_{name}' != 'DLOCK_OK']
        classes = {type(errors.make(code)) for code in codes}
        self.assertEqual(len(codes), 20)
        self.assertEqual(len(classes), 20)
        self.assertNotIn(dlock.DlockError, classes)
        for code in codes:
            self.assertTrue(errors.make(code).name.startswith('DLOCK_E'))
        self.assertIs(type(errors.make(9999)), dlock.DlockError)

    def test_usual_exceptions_catch_them(self):
        for ours, usual in ((dlock.AcquireTimeout, TimeoutError),
                            (dlock.UnavailableError, ConnectionError),
                            (dlock.UnknownOutcomeError, dlock.BackendError),
                            (dlock.NotHeldError, RuntimeError), (dlock.ConfigError, ValueError),
                            (dlock.AccessError, PermissionError)):
            self.assertTrue(issubclass(ours, usual) and issubclass(ours, dlock.DlockError))


class Raw(WithClient):
    def test_the_generated_layer_refuses_what_is_no_handle(self):
        client = self.client._core.native
        lock = native.lock_new(client, native.MUTEX, 'raw', None)
        for wrong in (None, 0, 'x', client, object()):
            with self.subTest(wrong=wrong):
                self.refuses(TypeError, 'dlock_op', native.op_wait, wrong, 0)
                self.refuses(TypeError, 'dlock_lock', native.lock_acquire_start, wrong, 0)
        self.refuses(TypeError, 'dlock_lock', native.multi_new, [lock, None], None)
        self.refuses(TypeError, 'list', native.multi_new, (lock,), None)
        self.refuses(ValueError, 'null', native.lock_new, client, native.MUTEX, 'a\0b', None)
        self.refuses(TypeError, 'str', native.lock_new, client, native.MUTEX, b'x', None)
        self.refuses(OverflowError, '', native.lock_acquire_start, lock, 2 ** 63)
        self.refuses(dlock.ConfigError, '', native.lock_new, client, 77, 'x', None)


if __name__ == '__main__':
    unittest.main()
