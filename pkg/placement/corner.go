package placement

import (
	"cmp"
	"container/heap"
)

// corner are candidates that have the same values for all constraints, the preferred one first. They are one to constraints,
// so that each choice looks at corners rather than at clusters.
type corner struct {
	values     []int
	candidates []int
	ranks      []int // of the candidates
	stands     fitness
}

// fitness is how well one more cluster of a corner would keep the constraints.
type fitness struct {
	barred bool   // it would break one with DoNotSchedule
	keeps  uint64 // a bit for each constraint with ScheduleAnyway that it keeps, that of the most important one first
}

// compare puts the fitter one first.
func (f fitness) compare(to fitness) int {
	if f.barred != to.barred {
		if f.barred {
			return 1
		}
		return -1
	}
	return cmp.Compare(to.keeps, f.keeps)
}

// cornerQueue finds the corner to choose from next without a look at all of them. With each choice a corner becomes less fit
// or stays as it is, until a constraint lets all values have one more: so the one in front need only be looked at again, and
// all of them in the latter case only.
type cornerQueue struct {
	constraints []*topology
	corners     []*corner // a heap
}

func newCornerQueue(constraints []*topology, corners []*corner) *cornerQueue {
	q := &cornerQueue{constraints, corners}
	q.judgeAll()
	return q
}

func (q *cornerQueue) judgeAll() {
	for _, c := range q.corners {
		c.stands = q.judge(c)
	}
	heap.Init(q)
}

func (q *cornerQueue) judge(c *corner) fitness {
	f := fitness{barred: forbidding(q.constraints, c.values) >= 0}
	for i, t := range q.constraints {
		if f.keeps <<= 1; !t.hard && t.allows(c.values[i]) {
			f.keeps++
		}
	}
	return f
}

// next takes the preferred candidate of the fittest corner; false if constraints allow no more.
func (q *cornerQueue) next() (int, bool) {
	for len(q.corners) > 0 {
		c := q.corners[0]
		if now := q.judge(c); now != c.stands {
			c.stands = now
			heap.Fix(q, 0)
			continue
		}
		if c.stands.barred {
			return 0, false // and so are all others
		}
		return q.take(c), true
	}
	return 0, false
}

// take takes a candidate out of the corner in front, and counts it.
func (q *cornerQueue) take(c *corner) int {
	chosen := c.candidates[0]
	c.candidates, c.ranks = c.candidates[1:], c.ranks[1:]
	if len(c.candidates) == 0 {
		heap.Pop(q)
	} else {
		heap.Fix(q, 0)
	}
	rises := false
	for i, t := range q.constraints {
		rises = t.add(c.values[i]) || rises
	}
	if rises {
		q.judgeAll()
	}
	return chosen
}

// Len implements heap.Interface.
func (q *cornerQueue) Len() int { return len(q.corners) }

// Less implements heap.Interface.
func (q *cornerQueue) Less(i, j int) bool {
	a, b := q.corners[i], q.corners[j]
	return cmp.Or(a.stands.compare(b.stands), cmp.Compare(a.ranks[0], b.ranks[0])) < 0
}

// Swap implements heap.Interface.
func (q *cornerQueue) Swap(i, j int) { q.corners[i], q.corners[j] = q.corners[j], q.corners[i] }

// Push implements heap.Interface; nothing is ever put in.
func (q *cornerQueue) Push(c any) { q.corners = append(q.corners, c.(*corner)) }

// Pop implements heap.Interface.
func (q *cornerQueue) Pop() any {
	last := q.corners[len(q.corners)-1]
	q.corners = q.corners[:len(q.corners)-1]
	return last
}
