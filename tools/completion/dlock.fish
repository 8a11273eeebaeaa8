# Completion of dlock(1) for fish. The settings are those of the library the command is linked with.

set -l commands run hold wait signal ls inspect break revoke top stats bench doctor version help

complete -c dlock -f
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a run -d 'Run a command under a lock'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a hold -d 'Hold a lock until stdin ends'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a wait -d 'Wait until nobody holds a lock'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a signal -d 'Wake who waits at a condition'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a ls -d 'List the locks that are there'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a inspect -d 'Show who holds a lock and who waits'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a break -d 'Take a lock away from its holder'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a revoke -d 'Ask the holder to give a lock up'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a top -d 'Show the locks again and again'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a stats -d 'Count what is held and who waits'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a bench -d 'Measure how fast locks are on a service'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a doctor -d 'Look at a lock service'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a version -d 'Show the versions and backends'
complete -c dlock -n "not __fish_seen_subcommand_from $commands" -a help -d 'Help'

complete -c dlock -l url -x -d 'The lock service'
complete -c dlock -l set -x -a "(dlock __keys 2>/dev/null | string replace \t =\t)" -d 'Any setting'
complete -c dlock -s v -l verbose -d "The library's log on stderr; -vv: each decision"
complete -c dlock -l json -d 'Answer in JSON'
complete -c dlock -s h -l help -d 'Help'

set -l locks run hold wait inspect break revoke
complete -c dlock -n "__fish_seen_subcommand_from $locks" -s s -l shared -d 'The read side'
complete -c dlock -n "__fish_seen_subcommand_from $locks" -s x -l exclusive -d 'The write side'
complete -c dlock -n "__fish_seen_subcommand_from $locks" -l permits -x -d 'One of N permits'

set -l waits run hold wait
complete -c dlock -n "__fish_seen_subcommand_from wait" -l signal -d 'Wait for a signal at a condition'
complete -c dlock -n "__fish_seen_subcommand_from signal" -s n -l number -x -d 'Wake so many'
complete -c dlock -n "__fish_seen_subcommand_from signal" -l all -d 'Wake all who wait'
complete -c dlock -n "__fish_seen_subcommand_from $waits" -s n -l nonblock -d "Don't wait"
complete -c dlock -n "__fish_seen_subcommand_from $waits" -s w -l wait -x -d 'Wait so many seconds at most'
complete -c dlock -n "__fish_seen_subcommand_from $waits" -s E -l conflict-exit-code -x -d "Exit status when it isn't obtained"
complete -c dlock -n '__fish_seen_subcommand_from run hold bench' -l ttl -x -d 'The lease in seconds'
complete -c dlock -n '__fish_seen_subcommand_from run hold' -l strict -d "A release that isn't confirmed is a failure"

complete -c dlock -n '__fish_seen_subcommand_from run' -s c -l command -x -d 'Let a shell run STRING'
complete -c dlock -n '__fish_seen_subcommand_from hold' -l export -d 'Leave the lock to a ticket'
complete -c dlock -n '__fish_seen_subcommand_from run' -l import -x -d 'Take over what hold --export left'
complete -c dlock -n '__fish_seen_subcommand_from run' -l on-lost -x -a 'term kill ignore' -d 'When the lock is lost'
complete -c dlock -n '__fish_seen_subcommand_from run' -l kill-after -x -d 'Seconds between TERM and KILL'
complete -c dlock -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand --fcs-skip=3)'
complete -c dlock -n '__fish_seen_subcommand_from break' -l force -d 'Needed'
complete -c dlock -n '__fish_seen_subcommand_from break' -l owner -x -d 'Only from this owner'
complete -c dlock -n '__fish_seen_subcommand_from doctor' -l deadlocks -d 'Who waits for whom in a circle'
complete -c dlock -n '__fish_seen_subcommand_from ls top stats' -l max -x -d 'At most so many'
complete -c dlock -n '__fish_seen_subcommand_from ls top stats' -l scan -d 'Go through all keys of a Redis'
complete -c dlock -n '__fish_seen_subcommand_from bench' -l seconds -x -d 'For each measure'
complete -c dlock -n '__fish_seen_subcommand_from bench' -l threads -x -d 'Of the measures with many'
complete -c dlock -n '__fish_seen_subcommand_from bench' -l keep -x -d 'Keep a lock after its release, in seconds'
complete -c dlock -n '__fish_seen_subcommand_from top' -l once -d 'One look'
complete -c dlock -n '__fish_seen_subcommand_from top' -l openmetrics -x -d 'Serve a page for Prometheus at a port or unix:PATH'
complete -c dlock -n '__fish_seen_subcommand_from doctor' -l install -d "First make PostgreSQL's schema"
