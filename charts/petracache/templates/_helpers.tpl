{{- define "petracache.name" -}}
{{- if contains "petracache" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-petracache{{ end }}
{{- end }}

{{- define "petracache.selectorLabels" -}}
app.kubernetes.io/name: petra-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "petracache.labels" -}}
{{ include "petracache.selectorLabels" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: petracache
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "petracache.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "petracache.name" .) }}{{ else }}{{ required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "petracache.roleKind" -}}
{{- if .Values.watchNamespace }}Role{{ else }}ClusterRole{{ end }}
{{- end }}

{{- define "petracache.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}
