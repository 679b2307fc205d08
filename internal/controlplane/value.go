package controlplane

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

func count(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, errors.New("must be an integer from 1")
	}
	return n, nil
}

// figure parses an integer of at least 0.
func figure(v string) (*int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return nil, errors.New("must be an integer from 0")
	}
	return &n, nil
}

// cents parses an amount in US cents, exact to the nano-dollar, and returns
// nano-dollars.
func cents(v string) (*int64, error) {
	const digits = 7
	integer, part, dotted := strings.Cut(v, ".")
	wrong := errors.New("must be an amount in US cents from 0, with up to 7 decimals")
	if integer == "" || dotted && part == "" || len(part) > digits || strings.ContainsAny(v, "+-_") {
		return nil, wrong
	}
	n, err := strconv.ParseInt(integer+part+strings.Repeat("0", digits-len(part)), 10, 64)
	if err != nil {
		return nil, wrong
	}
	return &n, nil
}

// rating parses feedback times weight.
func rating(v string) (*float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= -maxValue && n <= maxValue) {
		return nil, errors.New("must be a number from -10 to 10")
	}
	return &n, nil
}

func span(v string) (time.Duration, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > int64(24*time.Hour/time.Millisecond) {
		return 0, errors.New("must be an integer number of milliseconds up to one day")
	}
	return time.Duration(n) * time.Millisecond, nil
}

func flag(v string) (*bool, error) {
	b := v == "true"
	if !b && v != "false" {
		return nil, errors.New("must be true or false")
	}
	return &b, nil
}
