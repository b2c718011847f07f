{{/* The release's name, of at most 47 characters: others are made from it. */}}
{{- define "logstore.name" -}}
{{- if contains "logstore" .Release.Name -}}
{{- .Release.Name | trunc 47 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-logstore" .Release.Name | trunc 47 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "logstore.selector" -}}
app.kubernetes.io/name: logstore
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "logstore.labels" -}}
{{ include "logstore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "logstore.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "logstore.brokerAccount" -}}
{{ .Values.serviceAccount.name | default (include "logstore.name" .) }}
{{- end -}}

{{- define "logstore.compactionAccount" -}}
{{ .Values.compaction.serviceAccount.name | default (printf "%s-compaction" (include "logstore.name" .)) }}
{{- end -}}

{{/* The variable of a setting: logstore.cache.bytes is LOGSTORE_CACHE_BYTES. */}}
{{- define "logstore.variable" -}}
{{- . | trimPrefix "logstore." | replace "." "_" | replace "-" "_" | upper | printf "LOGSTORE_%s" -}}
{{- end -}}

{{/* A number of a YAML file is a float here: 1073741824, not 1.073741824e+09. */}}
{{- define "logstore.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{ printf "%.0f" . }}
{{- else -}}
{{ toString . }}
{{- end -}}
{{- end -}}

{{- define "logstore.setting" -}}
- name: {{ include "logstore.variable" (first .) }}
  value: {{ include "logstore.text" (last .) | quote }}
{{- end -}}

{{/* Variables of every process: where the log is, how its store is reached. */}}
{{- define "logstore.commonEnv" -}}
{{- with .Values.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
- name: LOGSTORE_URL
  value: {{ .Values.url | quote }}
{{- range $name, $value := .Values.settings }}
{{- if hasPrefix "storage." $name }}
{{ include "logstore.setting" (list $name $value) }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "logstore.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "logstore.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}

{{/* Where pods may run; the same for brokers and compaction. */}}
{{- define "logstore.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Reasons for which a pod is not as checkov wants it. */}}
{{- define "logstore.checkovOfPods" -}}
checkov.io/skip1: CKV_K8S_11=a limit of CPU stops a process for tenths of a second, and a broker that stands still loses its lease
checkov.io/skip2: CKV_K8S_15=a tag is one version, and a broker must start also while the registry of images is away
checkov.io/skip3: CKV_K8S_43=image.digest is there for it; a digest cannot be known before the image is pushed
{{- end -}}
