"""What kind of machine this is, and which cores may be used. No names of machines or folders."""
import datetime
import json
import os
import platform

CORES = sorted(os.sched_getaffinity(0))


def processor():
    name, virtual = platform.machine(), ''
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            key, _, value = line.partition(':')
            if key.strip() == 'model name':
                name = value.strip()
            if key.strip() == 'flags' and 'hypervisor' in value.split():
                virtual = ', virtual'
    return name + virtual


def about(args, servers):
    build = json.loads((args.build / 'bench' / 'build.json').read_text())
    return {
        'date': datetime.date.today().isoformat(),
        'processor': processor(),
        'cores': len(CORES),
        'kernel': platform.release().partition('-')[0],
        'libc': ' '.join(platform.libc_ver()),
        'compiler': f'{build["compiler"]}, {build["buildtype"]}',
        'server': servers['pinned'].version if servers else 'no Redis',
        'libraries': {},
        'pairs': args.pairs,
        'secs': args.secs,
        'load': os.getloadavg()[0],
    }
