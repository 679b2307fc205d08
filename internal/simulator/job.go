package simulator

import (
	"strings"
	"sync"
	"time"
)

// A jobPhase is a part of the life of a job.
type jobPhase int

const (
	jobQueued jobPhase = iota // its input is checked
	jobRunning
	jobWriting // its results are written
	jobCanceling
	jobCompleted
	jobFailed
	jobCanceled
	jobExpired
	jobPhaseCount
)

// ended reports whether nothing follows the phase.
func (p jobPhase) ended() bool { return p >= jobCompleted }

// Modes of jobs.
const (
	jobHangs       = "hang"
	jobFails       = "fail"
	jobExpires     = "expire"
	jobSlowCancels = "slow-cancel"
)

// slowCancelReads is the number of reads after which a job with a slow
// cancellation has been canceled.
const slowCancelReads = 5

// A jobPace says how a job moves on.
type jobPace struct {
	reads    int           // reads of the job in each phase; 0 means 1
	takes    time.Duration // from its creation to its end, instead of reads
	hasTakes bool
	mode     string
}

// A jobWork is what a job does. Its methods are called with the job locked.
type jobWork interface {
	// check reports whether the input is valid; the job fails if it is not.
	check() bool
	// produce writes the results of a job that ends in this phase. began is false
	// if it never ran.
	produce(end jobPhase, began bool)
}

// A job is work in the background of a simulated provider. It has no goroutine:
// it moves on when it is read.
type job struct {
	mu     sync.Mutex
	pace   jobPace
	work   jobWork
	phase  jobPhase
	direct bool // it ends without the phase of writing
	queue  bool // it waits in a queue after its check
	paused bool
	reads  int                      // in this phase
	at     [jobPhaseCount]time.Time // when each phase began; zero if it did not
}

func newJob(pace jobPace, work jobWork, now time.Time) *job {
	j := &job{pace: pace, work: work}
	j.pace.reads = max(pace.reads, 1)
	j.at[jobQueued] = now
	return j
}

// read counts a read of the job and moves it on. The caller holds mu.
func (j *job) read(now time.Time) {
	if j.phase.ended() || j.paused {
		return
	}
	j.reads++
	for !j.phase.ended() && j.due(now) {
		j.next(now)
	}
}

// due reports whether the phase is over.
func (j *job) due(now time.Time) bool {
	need := j.pace.reads
	switch {
	case j.phase == jobRunning && j.pace.mode == jobHangs:
		return false
	case j.phase == jobCanceling:
		if j.pace.mode == jobSlowCancels {
			need *= slowCancelReads
		}
		return j.reads >= need
	case !j.pace.hasTakes:
		if j.queue && j.phase == jobQueued {
			need *= 2
		}
		return j.reads >= need
	}
	if j.direct && j.phase == jobRunning {
		return now.Sub(j.at[jobQueued]) >= j.pace.takes
	}
	quarters := map[jobPhase]time.Duration{jobQueued: 1, jobRunning: 3, jobWriting: 4}[j.phase]
	return now.Sub(j.at[jobQueued]) >= j.pace.takes*quarters/4
}

// waits reports whether a job with a queue is in it.
func (j *job) waits(now time.Time) bool {
	if j.pace.hasTakes {
		return now.Sub(j.at[jobQueued]) >= j.pace.takes/8
	}
	return j.reads >= j.pace.reads
}

func (j *job) next(now time.Time) {
	switch j.phase {
	case jobQueued:
		if j.pace.mode == jobFails || !j.work.check() {
			j.work.produce(jobFailed, false)
			j.enter(jobFailed, now)
			return
		}
		j.enter(jobRunning, now)
	case jobRunning:
		if j.pace.mode == jobExpires {
			j.work.produce(jobExpired, true)
			j.enter(jobExpired, now)
			return
		}
		j.work.produce(jobCompleted, true)
		if j.direct {
			j.enter(jobCompleted, now)
			return
		}
		j.enter(jobWriting, now)
	case jobWriting:
		j.enter(jobCompleted, now)
	case jobCanceling:
		if j.at[jobWriting].IsZero() { // else the results are complete
			j.work.produce(jobCanceled, !j.at[jobRunning].IsZero())
		}
		j.enter(jobCanceled, now)
	}
}

func (j *job) enter(phase jobPhase, now time.Time) {
	j.phase, j.reads, j.at[phase] = phase, 0, now
}

// cancel begins the cancellation. It returns false for a job that has ended.
// The caller holds mu.
func (j *job) cancel(now time.Time) bool {
	if j.phase.ended() {
		return false
	}
	if j.phase != jobCanceling {
		j.paused = false
		j.enter(jobCanceling, now)
	}
	return true
}

// unix returns when a phase began, in seconds, or nil.
func (j *job) unix(phase jobPhase) any {
	if j.at[phase].IsZero() {
		return nil
	}
	return j.at[phase].Unix()
}

// stamp returns when a phase began, as text of RFC 3339, or nil.
func (j *job) stamp(phase jobPhase) any {
	if j.at[phase].IsZero() {
		return nil
	}
	return j.at[phase].UTC().Format(time.RFC3339)
}

// last returns when the job has ended, or the zero time.
func (j *job) last() time.Time {
	if j.phase.ended() {
		return j.at[j.phase]
	}
	return time.Time{}
}

// jobPaceOf returns the pace that a request asks for: by its own faults, or by
// those in the name of the model that the job uses. Of the latter, only faults
// of jobs apply to the request.
func (x *exchange) jobPaceOf(model string) jobPace {
	plus := strings.IndexByte(model, '+')
	if plus >= 0 && x.r.Header.Get(HeaderFault) == "" && string(x.model) != model {
		if asked, err := parsePlan(model[plus+1:]); err == nil {
			own := x.plan
			x.plan = asked
			x.applyLimits(x.sim.calls.add([]byte("job " + model)))
			own.jobFaults, own.jobShape = x.plan.jobFaults, x.plan.jobShape
			x.plan = own
		}
	}
	return jobPace{reads: x.plan.reads, takes: x.plan.takes, hasTakes: x.plan.hasTakes, mode: x.plan.job}
}
