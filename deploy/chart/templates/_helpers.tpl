{{- define "modelgate.name" -}}
{{- if contains "modelgate" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-modelgate" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "modelgate.selector" -}}
app.kubernetes.io/name: modelgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "modelgate.labels" -}}
{{ include "modelgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "modelgate.secret" -}}
{{ .Values.secret.existing | default (include "modelgate.name" .) }}
{{- end }}

{{- define "modelgate.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "modelgate.name" .) }}
{{- end }}

{{/* "true" if there may be more than one node. */}}
{{- define "modelgate.several" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.hpa.enabled .Values.keda.enabled }}true{{ end }}
{{- end }}

{{/* Seconds in which a pod that ends still gets requests, until every proxy knows that it ends. */}}
{{- define "modelgate.drainMin" -}}10{{- end }}

{{/* Variables that the secret must have, by what needs them. */}}
{{- define "modelgate.needed" -}}
MODELGATE_ADMIN_TOKEN
{{- if .Values.shared.postgres }} DATABASE_URL{{ end }}
{{- if .Values.shared.redis }} REDIS_URL{{ end }}
{{- if .Values.shared.s3.bucket }} S3_ACCESS_KEY S3_SECRET_KEY{{ end }}
{{- end }}

{{/* modelgate.yaml: the settings, and what follows from other values. */}}
{{- define "modelgate.settings" -}}
{{- $made := dict "version" 1 "drain" (dict "min" (printf "%ss" (include "modelgate.drainMin" .)) "max" (printf "%ds" (int .Values.drainSeconds))) }}
{{- if .Values.publicURL }}{{ $_ := set $made "public_url" .Values.publicURL }}{{ end }}
{{- if .Values.shared.redis }}
{{- $_ := set $made "limits" (dict "counters" (dict "store" "redis" "url" "${REDIS_URL}")) }}
{{- end }}
{{- if .Values.shared.s3.bucket }}
{{- $_ := set $made "blob" (dict "s3" (merge (dict "access_key" "${S3_ACCESS_KEY}" "secret_key" "${S3_SECRET_KEY}") .Values.shared.s3)) }}
{{- end }}
{{- toYaml (merge $made (deepCopy .Values.settings)) }}
{{- end }}
