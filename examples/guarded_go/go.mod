module guarded

go 1.24

require (
	github.com/lib/pq v1.10.9
	github.com/libdlock/libdlock/bindings/go v0.0.0
)

replace github.com/libdlock/libdlock/bindings/go => ../../bindings/go
