{{/* Refuses combinations that cannot work. */}}
{{- define "modelgate.checks" -}}
{{- $v := .Values }}
{{- $settings := $v.settings | default dict }}
{{- $counters := dig "limits" "counters" dict $settings | default dict }}
{{- if and (include "modelgate.several" .) (not $v.shared.postgres) }}
{{- fail "several nodes need one database: set shared.postgres, and put DATABASE_URL into the secret" }}
{{- end }}
{{- if and (include "modelgate.several" .) (not $v.shared.s3.bucket) }}
{{- fail "several nodes need one place for files: set shared.s3.endpoint, region and bucket, and put S3_ACCESS_KEY and S3_SECRET_KEY into the secret" }}
{{- end }}
{{- if and (include "modelgate.several" .) (eq (dig "store" "" $counters) "memory") }}
{{- fail "with settings.limits.counters.store memory each of several nodes would count for itself: remove it, or set shared.redis" }}
{{- end }}
{{- if and $v.shared.redis $counters }}
{{- fail "shared.redis and settings.limits.counters both say where limits are counted: remove one" }}
{{- end }}
{{- if and $v.shared.s3.bucket (hasKey $settings "blob") }}
{{- fail "shared.s3 and settings.blob both say where files are: remove one" }}
{{- end }}
{{- if hasKey $settings "drain" }}
{{- fail "set drainSeconds instead of settings.drain: the time that Kubernetes gives a pod follows from it" }}
{{- end }}
{{- if and $v.publicURL (hasKey $settings "public_url") }}
{{- fail "publicURL and settings.public_url are the same setting: remove one" }}
{{- end }}
{{- if and $v.hpa.enabled $v.keda.enabled }}
{{- fail "hpa and keda would scale the same nodes: enable one" }}
{{- end }}
{{- range $name := list "hpa" "keda" }}
{{- $scale := index $v $name }}
{{- if and $scale.enabled (gt (int $scale.min) (int $scale.max)) }}
{{- fail (printf "%s.min is greater than %s.max" $name $name) }}
{{- end }}
{{- end }}
{{- if and $v.keda.enabled (not $v.keda.prometheus) }}
{{- fail "keda needs keda.prometheus, the address of a Prometheus that scrapes the gateway" }}
{{- end }}
{{- if and $v.secret.existing $v.secret.values }}
{{- fail "secret.existing names a Secret of yours, and secret.values would be in another one: set one of them" }}
{{- end }}
{{- if not $v.secret.existing }}
{{- range $name := splitList " " (include "modelgate.needed" .) }}
{{- if not (get $v.secret.values $name) }}
{{- fail (printf "the secret needs %s: set secret.values.%s, or secret.existing to the name of a Secret that has it" $name $name) }}
{{- end }}
{{- end }}
{{- if lt (len (get $v.secret.values "MODELGATE_ADMIN_TOKEN")) 16 }}
{{- fail "secret.values.MODELGATE_ADMIN_TOKEN needs 16 characters or more, for example from openssl rand -hex 32" }}
{{- end }}
{{- end }}
{{- range $name, $_ := $v.env }}
{{- if or (hasKey $v.secret.values $name) (has $name (list "MODELGATE_CONFIG" "MODELGATE_DATA" "MODELGATE_LISTEN" "MODELGATE_ADMIN_LISTEN" "GOMEMLIMIT")) }}
{{- fail (printf "env.%s is already set by the chart or by the secret: remove it" $name) }}
{{- end }}
{{- end }}
{{- end }}
