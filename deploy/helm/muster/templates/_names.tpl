{{- define "muster.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "muster.host" -}}
{{- (urlParse (required "url is needed for the ingress" .Values.url)).hostname -}}
{{- end -}}

{{- /* The settings of the server: those of this installation come last. */ -}}
{{- define "muster.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $web := dict "host" "0.0.0.0" "port" 8265 "monitoring" (dict "host" "0.0.0.0" "port" 8080) -}}
{{- if .Values.url -}}
{{- $_ := set $web "url" .Values.url -}}
{{- end -}}
{{- $_ := set $config "web" (merge $web ($config.web | default dict)) -}}
{{- if .Values.s3 -}}
{{- $artifacts := $config.artifacts | default dict -}}
{{- $_ := set $config "artifacts" (merge (dict "s3" .Values.s3) $artifacts) -}}
{{- end -}}
{{- if .Values.oidc -}}
{{- $_ := set $config "oidc" (deepCopy .Values.oidc) -}}
{{- end -}}
{{- if $config.oidc -}}
{{- if not (or (hasKey $config.oidc "clientSecret") (hasKey $config.oidc "clientSecretFile")) -}}
{{- $_ := set $config.oidc "clientSecretFile" "/etc/muster/secrets/oidc-client-secret" -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
