package workload

import (
	"fmt"
	"maps"
	"slices"
)

// split is which part of a set holds which objects.
type split struct {
	parts map[int][]Object // by number, each in the order of the input
	moved map[ID]int       // objects that are in another part now, and the part that they are to be in
}

// splitter puts objects into parts so that each stays where it is if it can.
type splitter struct {
	limit   int // of a part, in bytes
	fill    int // up to which new objects are put into a part; the rest is for those in it to grow
	taken   map[int]bool
	current map[int]map[ID]bool

	home    map[ID]int
	used    map[int]int
	count   map[int]int
	leaving map[int]bool // parts that give objects up
}

// divide decides which object is in which part. current is what the parts on the hub hold, taken are numbers that no part
// may have. An object never moves into a part that gives up another one: so a part can be written as it is to be as soon
// as what moves into it is in order, with no need to hold what leaves and what comes at the same time.
func divide(objects []Object, current map[int]map[ID]bool, taken map[int]bool, limit int) (split, error) {
	s := splitter{limit: limit, fill: limit, taken: taken, current: current, home: map[ID]int{}, used: map[int]int{}, count: map[int]int{}, leaving: map[int]bool{}}
	total := 0
	for _, o := range objects {
		if o.size() > limit {
			return split{}, fmt.Errorf("%s: %s is %d bytes large, more than the %d bytes that a work of this hub may hold; make it smaller", o.Place, o, o.size(), limit)
		}
		total += o.size()
	}
	if total > limit {
		s.fill = limit - limit/10
	}
	s.stay(objects)
	s.place(append(s.overflow(objects), s.homeless(objects)...))
	s.keepFirst(objects)
	return s.result(objects), nil
}

// stay leaves objects where they are. One that is in two parts, since a move was cut short, stays where there is room.
func (s *splitter) stay(objects []Object) {
	var twice []Object
	for _, o := range objects {
		switch in := s.partsOf(o.ID); len(in) {
		case 0:
		case 1:
			s.put(o, in[0])
		default:
			twice = append(twice, o)
		}
	}
	for _, o := range twice {
		in := s.partsOf(o.ID)
		best := slices.IndexFunc(in, func(part int) bool { return s.used[part]+o.size() <= s.limit })
		s.put(o, in[max(best, 0)])
		for _, part := range in {
			s.leaving[part] = s.leaving[part] || part != s.home[o.ID]
		}
	}
}

func (s *splitter) partsOf(id ID) []int {
	var in []int
	for _, part := range slices.Sorted(maps.Keys(s.current)) {
		if s.current[part][id] {
			in = append(in, part)
		}
	}
	return in
}

func (s *splitter) put(o Object, part int) {
	s.home[o.ID] = part
	s.used[part] += o.size()
	s.count[part]++
}

func (s *splitter) take(o Object) {
	part := s.home[o.ID]
	delete(s.home, o.ID)
	s.used[part] -= o.size()
	s.count[part]--
}

// overflow takes objects out of parts that have grown too large: the last ones, and what others need only if nothing else is
// left.
func (s *splitter) overflow(objects []Object) []Object {
	var out []Object
	for _, fundament := range []bool{false, true} {
		for _, o := range slices.Backward(objects) {
			part, ok := s.home[o.ID]
			if !ok || o.fundament() != fundament || s.used[part] <= s.limit {
				continue
			}
			s.take(o)
			s.leaving[part] = true
			out = append(out, o)
		}
	}
	slices.Reverse(out)
	return out
}

// homeless are objects that are in no part yet, what others need before the rest.
func (s *splitter) homeless(objects []Object) []Object {
	var first, rest []Object
	for _, o := range objects {
		switch {
		case len(s.partsOf(o.ID)) > 0:
		case o.fundament():
			first = append(first, o)
		default:
			rest = append(rest, o)
		}
	}
	return append(first, rest...)
}

// place puts objects into the first part that has room, or a new one.
func (s *splitter) place(objects []Object) {
	for _, o := range objects {
		moves := len(s.partsOf(o.ID)) > 0
		for part := 1; ; part++ {
			if s.taken[part] || moves && (s.leaving[part] || s.current[part][o.ID]) {
				continue
			}
			if s.used[part]+o.size() <= s.fill || s.count[part] == 0 {
				s.put(o, part)
				break
			}
		}
	}
}

// keepFirst fills the first part from the last one should nothing be left in it, so that a set always has the work of its
// own name.
func (s *splitter) keepFirst(objects []Object) {
	last := 0
	for part, count := range s.count {
		if count > 0 {
			last = max(last, part)
		}
	}
	if s.count[1] > 0 || last < 2 || s.taken[1] {
		return
	}
	for _, o := range objects {
		if s.home[o.ID] == last {
			s.take(o)
			s.put(o, 1)
		}
	}
}

func (s *splitter) result(objects []Object) split {
	out := split{parts: map[int][]Object{}, moved: map[ID]int{}}
	for _, o := range objects {
		part := s.home[o.ID]
		out.parts[part] = append(out.parts[part], o)
		for _, before := range s.partsOf(o.ID) {
			if before != part {
				out.moved[o.ID] = part
			}
		}
	}
	return out
}

// receiving are the parts that get objects of other parts, which are written before those that give them up.
func (s split) receiving(current map[int]map[ID]bool) []int {
	parts := map[int]bool{}
	for id, part := range s.moved {
		if !current[part][id] {
			parts[part] = true
		}
	}
	return slices.Sorted(maps.Keys(parts))
}
