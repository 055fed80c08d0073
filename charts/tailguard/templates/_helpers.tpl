{{- define "tailguard.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "tailguard.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "tailguard.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tailguard.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tailguard.selector" -}}
app.kubernetes.io/name: {{ include "tailguard.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "tailguard.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "tailguard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tailguard.serviceAccount" -}}
{{- default (ternary (include "tailguard.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "tailguard.image" -}}
{{- default (printf "tailguard/tailguard:%s" .Chart.AppVersion) .Values.image }}
{{- end }}

{{- /* The file that the operator reads as `Installation` (operator/tailguard_operator/resources/profile.py). */ -}}
{{- define "tailguard.installation" -}}
namespace: {{ .Release.Namespace }}
defaultProfile: {{ .Values.defaultProfile }}
runtimeImage: {{ default (include "tailguard.image" .) .Values.runtime.image }}
runtimeCommand: {{ toJson (default .Values.command .Values.runtime.command) }}
jobTemplate: {{ toJson .Values.runtime.jobTemplate }}
guardTemplate: {{ toJson .Values.runtime.guardTemplate }}
gate: {{ toJson .Values.runtime.gate }}
profiles:
{{- range $name, $profile := .Values.engines }}
{{- if $profile }}
  {{ $name }}:
    {{- toYaml $profile | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}
