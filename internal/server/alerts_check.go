package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/secret"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// AlertCheck checks the destinations of alerts in a settings file.
type AlertCheck struct {
	Config              string
	MasterKey, Previous secret.String
	TrustedHosts        []string // in addition to those of the settings
	Send                bool     // send a test alert; otherwise destinations are only contacted
}

// AlertDestination is a destination of alerts and what its check returned.
type AlertDestination struct {
	Name string
	Err  error // nil if it can be used, or has received the test alert
}

// Run returns the destinations. E-mail goes only to the recipients of the settings.
func (c AlertCheck) Run(ctx context.Context) (list []AlertDestination, err error) {
	box, err := MasterBox(c.MasterKey, c.Previous)
	if err != nil {
		return nil, err
	}
	set, err := loadSettings(c.Config, box)
	if err != nil {
		return nil, err
	}
	client := upstream.New(upstream.Options{TrustedHosts: slices.Concat(c.TrustedHosts, set.Upstream.TrustedHosts),
		RootCAs: authorities(&set.Upstream)})
	defer client.Close()
	now := time.Now()
	test := &alert.Alert{ID: reqlog.NewID(now).String(), Type: alert.Test, Time: now, Data: alert.Data{Object: "test"}}
	for i := range set.Alerts.Webhooks {
		w := set.Alerts.Webhooks[i].Webhook()
		_, err := client.CheckHost(w.URL)
		switch {
		case err != nil:
		case c.Send:
			err = w.Send(ctx, client, test, now)
		default:
			err = w.Contact(ctx, client)
		}
		list = append(list, AlertDestination{"webhook at " + w.Host(), err})
	}
	if set.Alerts.Email.Server != "" {
		list = append(list, c.checkEmail(ctx, &set.Alerts.Email, test)...)
	}
	return list, nil
}

var errNotAccepted = errors.New("the mail server did not accept the recipient")

func (c AlertCheck) checkEmail(ctx context.Context, set *settings.AlertEmail, test *alert.Alert) (list []AlertDestination) {
	m, err := set.Mail()
	if err == nil && (!c.Send || len(set.To) == 0) {
		err = m.Contact(ctx)
		return []AlertDestination{{"mail server " + set.Server, err}}
	}
	if err != nil {
		return []AlertDestination{{"mail server " + set.Server, err}}
	}
	result, err := m.Send(ctx, test, set.To, time.Now())
	for _, to := range set.To {
		d := AlertDestination{Name: "e-mail to " + to}
		if !slices.Contains(result.Sent, to) {
			if d.Err = err; err == nil || slices.Contains(result.Rejected, to) {
				d.Err = errNotAccepted
			}
		}
		list = append(list, d)
	}
	return list
}
