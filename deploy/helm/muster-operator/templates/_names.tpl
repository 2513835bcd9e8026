{{- define "muster-operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Operators of the same namespaces take part in the same election. */ -}}
{{- define "muster-operator.lease" -}}
muster-operator-{{ .Values.namespaces | uniq | sortAlpha | join "," | sha256sum | trunc 10 }}
{{- end -}}

{{- /* Uninstalling the chart must not delete all jobs. */ -}}
{{- define "muster-operator.definition" -}}
{{- $definition := .root.Files.Get .path | fromYaml -}}
{{- $_ := set $definition.metadata "annotations" (dict "helm.sh/resource-policy" "keep") -}}
---
{{ toYaml $definition }}
{{- end -}}
