// A peer of libdlock's on Redis: takes locks with node-redlock, as told line by line. What the
// lines are stands in ../peers.py.
//
//     node peer.js PORT,… TTL_MS
//
// A slot is a chain of promises: each does what it is told in that order.
import { closeSync, openSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import redlock from 'redlock';

const PATIENCE_MS = 120_000;
const RETRY_MS = 20;

const clients = process.argv[2].split(',').map((port) => new Redis({ host: '127.0.0.1', port: Number(port) }));
// Its types and its modules disagree on what the default is.
const Redlock = redlock.default ?? redlock;
const service = new Redlock(clients, { retryCount: 0 });

class Slot {
  constructor(name) {
    this.name = name;
    this.holds = [];
    this.last = Promise.resolve();
  }

  tell(line) {
    this.last = this.last.then(() => this.run(line.split(' ')));
  }

  async run([verb, ...words]) {
    let answer;
    try {
      answer = await this.obey(verb, words);
    } catch (why) {
      answer = `error ${why.message.replaceAll('\n', ' ')}`;
    }
    console.log(`${this.name} ${answer}`);
  }

  async obey(verb, words) {
    switch (verb) {
      case 'take':
        return this.take(words[1], Number(words[2]), Number(words[3]));
      case 'release':
        await this.holds.pop().release();
        return 'ok';
      case 'contend':
        return this.contend(words[0], words[1], Number(words[2]), words[3], Number(words[4]));
      default:
        throw new Error(`no such command: ${verb}`);
    }
  }

  // Its own retries count; ours look at the clock.
  async take(name, ttl, wait) {
    for (const end = performance.now() + wait; ; await sleep(RETRY_MS)) {
      try {
        const lock = await service.acquire([name], ttl);
        this.holds.push(lock);
        return `ok 0 ${lock.value}`;
      } catch (why) {
        if (why.name !== 'ExecutionError') throw why;
      }
      if (performance.now() >= end) return 'no';
    }
  }

  // Takes it until the time is over, and at least once; notes each entry.
  async contend(kind, name, ttl, path, ms) {
    const log = openSync(path, 'a');
    const end = performance.now() + ms;
    let rounds = 0;
    do {
      this.note(log, '?', kind);
      if ((await this.take(name, ttl, PATIENCE_MS)) === 'no') return 'error waited in vain';
      this.note(log, '+', kind);
      await sleep(Math.random() * 3);
      this.note(log, '-', kind);
      await this.holds.pop().release();
      await sleep(Math.random() * 3);
      rounds += 1;
    } while (performance.now() < end);
    closeSync(log);
    return `ok ${rounds}`;
  }

  // One write to a file opened for appending: the lines of all contenders have one order.
  note(log, what, kind) {
    writeSync(log, `${what} ${this.name} ${kind} 0 ${Date.now()}\n`);
  }
}

const slots = new Map();
console.log('ready ok');
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const [name, ...rest] = line.split(' ');
    if (!slots.has(name)) slots.set(name, new Slot(name));
    slots.get(name).tell(rest.join(' '));
  })
  .on('close', () => process.exit(0)); // as who dies: nothing is released
