package dlockmetrics

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// What libdlock has written, and nobody else: not every OpenMetrics text is read.
type family struct {
	name, kind, help string
	series           []*series
}

// One series of a family; the buckets of a histogram are one.
type series struct {
	key     string // its labels as the text has them, less a bucket's end: {client="…"}
	labels  map[string]string
	value   float64 // a histogram's sum
	count   uint64
	buckets map[float64]uint64
}

// Closed clients are left out; without any named it is all of this process.
func familiesOf(clients []*dlock.Client) ([]*family, error) {
	if len(clients) == 0 {
		text, err := dlock.Metrics()
		if err != nil {
			return nil, err
		}
		return parse(text)
	}
	var merged []*family
	for _, client := range clients {
		text, err := client.Metrics()
		if errors.Is(err, dlock.ErrClosed) {
			continue
		} else if err != nil {
			return nil, err
		}
		found, err := parse(text)
		if err != nil {
			return nil, err
		}
		for i, more := range found {
			if i < len(merged) {
				merged[i].series = append(merged[i].series, more.series...)
			}
		}
		if merged == nil {
			merged = found
		}
	}
	return merged, nil
}

func parse(text string) ([]*family, error) {
	var found []*family
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest, comment := strings.CutPrefix(line, "# ")
		if !comment {
			if len(found) == 0 {
				return nil, unread(line)
			}
			if err := found[len(found)-1].add(line); err != nil {
				return nil, err
			}
			continue
		}
		words := strings.SplitN(rest, " ", 3)
		switch {
		case len(words) == 3 && words[0] == "TYPE":
			found = append(found, &family{name: words[1], kind: words[2]})
		case len(words) == 3 && words[0] == "HELP" && len(found) > 0:
			found[len(found)-1].help = words[2]
		}
	}
	return found, nil
}

func unread(line string) error { return fmt.Errorf("dlockmetrics: can't read %q", line) }

func (f *family) add(line string) error {
	open, end := strings.IndexByte(line, '{'), strings.LastIndex(line, "} ")
	if open < 0 || end < open {
		return unread(line)
	}
	labels, err := labelsOf(line[open+1 : end])
	if err != nil {
		return unread(line)
	}
	value, err := strconv.ParseFloat(line[end+2:], 64)
	if err != nil {
		return unread(line)
	}
	suffix, key := strings.TrimPrefix(line[:open], f.name), line[open:end+1]
	if bound, ok := labels["le"]; ok { // the last one
		delete(labels, "le")
		key = line[open:strings.LastIndex(line, `,le="`)] + "}"
		return f.of(key, labels).bucket(bound, value)
	}
	one := f.of(key, labels)
	if suffix == "_count" {
		one.count = uint64(value)
	} else {
		one.value = value
	}
	return nil
}

// The lines of one series follow each other.
func (f *family) of(key string, labels map[string]string) *series {
	if last := len(f.series) - 1; last >= 0 && f.series[last].key == key {
		return f.series[last]
	}
	one := &series{key: key, labels: labels, buckets: map[float64]uint64{}}
	f.series = append(f.series, one)
	return one
}

func (s *series) bucket(bound string, count float64) error {
	end, err := strconv.ParseFloat(bound, 64)
	if err == nil && !math.IsInf(end, 1) { // that is the count
		s.buckets[end] = uint64(count)
	}
	return err
}

// name="value",… where a value has \\, \" and \n.
func labelsOf(text string) (map[string]string, error) {
	labels := map[string]string{}
	for text != "" {
		name, rest, ok := strings.Cut(text, `="`)
		if !ok {
			return nil, errors.ErrUnsupported
		}
		var value strings.Builder
		for i := 0; ; i++ {
			if i >= len(rest) {
				return nil, errors.ErrUnsupported
			}
			if rest[i] == '"' {
				text = strings.TrimPrefix(rest[i+1:], ",")
				break
			}
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
				if rest[i] == 'n' {
					value.WriteByte('\n')
					continue
				}
			}
			value.WriteByte(rest[i])
		}
		labels[name] = value.String()
	}
	return labels, nil
}
