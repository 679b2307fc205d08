package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/store"
)

// jobMetrics are read from the database when they are scraped. Without a database there
// are none.
type jobMetrics struct{ store *store.DB }

var (
	jobsByState = prometheus.NewDesc("modelgate_jobs", "Background jobs of all nodes by kind and state.", []string{"kind", "state"}, nil)
	jobsDue     = prometheus.NewDesc("modelgate_jobs_oldest_due_seconds",
		"Time since the oldest queued job was due, in seconds; 0 if none is due.", []string{"kind"}, nil)
	schedulesStopped = prometheus.NewDesc("modelgate_export_schedules_stopped",
		"Schedules of exports of all organisations that have stopped for lack of a right.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (jobMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- jobsByState
	to <- jobsDue
	to <- schedulesStopped
}

// Collect implements [prometheus.Collector].
func (m jobMetrics) Collect(to chan<- prometheus.Metric) {
	if m.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := m.store.CountJobs(ctx)
	if err != nil {
		return // the database is unavailable, which another metric reports
	}
	for _, c := range list {
		to <- prometheus.MustNewConstMetric(jobsByState, prometheus.GaugeValue, float64(c.Count), c.Kind, c.State)
		if c.State == store.JobQueued {
			to <- prometheus.MustNewConstMetric(jobsDue, prometheus.GaugeValue, max(time.Since(c.Due).Seconds(), 0), c.Kind)
		}
	}
	if stopped, err := m.store.CountStoppedExportSchedules(ctx); err == nil {
		to <- prometheus.MustNewConstMetric(schedulesStopped, prometheus.GaugeValue, float64(stopped))
	}
}
