module peer

go 1.23.0

require github.com/lib/pq v1.10.9
