package controlplane

import (
	"errors"
	"strconv"
	"time"
)

// moment reads a time: RFC 3339, or Unix seconds.
func moment(v string) (time.Time, error) {
	if sec, err := strconv.ParseInt(v, 10, 64); err == nil {
		return time.Unix(sec, 0), nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		return t, errors.New("takes a time as 2006-01-02T15:04:05Z or in Unix seconds")
	}
	return t, nil
}

func count(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, errors.New("takes a whole number from 1")
	}
	return n, nil
}

func span(v string) (time.Duration, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > int64(24*time.Hour/time.Millisecond) {
		return 0, errors.New("takes whole milliseconds up to one day")
	}
	return time.Duration(n) * time.Millisecond, nil
}

func flag(v string) (*bool, error) {
	b := v == "true"
	if !b && v != "false" {
		return nil, errors.New("takes true or false")
	}
	return &b, nil
}
