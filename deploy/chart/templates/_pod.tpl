{{/* The pod of a node. What differs between one node and several is the volume "data". */}}
{{- define "modelgate.pod" -}}
metadata:
  labels:
    {{- include "modelgate.labels" . | nindent 4 }}
    {{- with .Values.pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/settings: {{ include "modelgate.settings" . | sha256sum }}
    {{- if not .Values.secret.existing }}
    checksum/secret: {{ toJson .Values.secret.values | sha256sum }}
    {{- end }}
    {{- with .Values.pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "modelgate.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (int .Values.drainSeconds) (include "modelgate.drainMin" . | int) 20 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.pod.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.pod.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.pod.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.pod.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if include "modelgate.several" . }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "modelgate.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  containers:
    - name: modelgate
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default (.Chart.AppVersion | replace "+" "-")) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      ports:
        - {name: http, containerPort: 8787}
        - {name: admin, containerPort: 8788}
      env:
        - {name: MODELGATE_CONFIG, value: /etc/modelgate/modelgate.yaml}
        - {name: MODELGATE_DATA, value: /data}
        - {name: MODELGATE_LISTEN, value: "0.0.0.0:8787"}
        - {name: MODELGATE_ADMIN_LISTEN, value: "0.0.0.0:8788"}
        - {name: GOMEMLIMIT, value: {{ printf "%dMiB" (div (mul (int .Values.resources.memoryMiB) 9) 10) }}}
        {{- if .Values.authorities }}
        - {name: SSL_CERT_DIR, value: "/etc/ssl/certs:/etc/modelgate/authorities"}
        {{- end }}
        {{- range $name, $value := .Values.env }}
        - {name: {{ $name }}, value: {{ $value | toString | quote }}}
        {{- end }}
        {{- /* Named one by one, so that a pod without them does not start and says what is missing. */}}
        {{- range splitList " " (include "modelgate.needed" .) }}
        - name: {{ . }}
          valueFrom:
            secretKeyRef: {name: {{ include "modelgate.secret" $ }}, key: {{ . }}}
        {{- end }}
      envFrom:
        - secretRef: {name: {{ include "modelgate.secret" . }}}
      startupProbe:
        httpGet: {path: /health, port: admin}
        periodSeconds: 2
        failureThreshold: 90
      livenessProbe:
        httpGet: {path: /health, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /ready, port: admin}
        periodSeconds: 3
        timeoutSeconds: 3
        failureThreshold: 1
      resources:
        requests: {cpu: {{ .Values.resources.cpu | quote }}, memory: {{ int .Values.resources.memoryMiB }}Mi}
        limits: {memory: {{ int .Values.resources.memoryMiB }}Mi}
      securityContext:
        allowPrivilegeEscalation: false
        privileged: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        - {name: settings, mountPath: /etc/modelgate, readOnly: true}
        {{- if .Values.authorities }}
        - {name: authorities, mountPath: /etc/modelgate/authorities, readOnly: true}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    - name: settings
      configMap: {name: {{ include "modelgate.name" . }}}
    {{- if .Values.authorities }}
    - name: authorities
      configMap: {name: {{ .Values.authorities }}}
    {{- end }}
    {{- if .Values.shared.postgres }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.volume.size }}}
    {{- end }}
{{- end }}
