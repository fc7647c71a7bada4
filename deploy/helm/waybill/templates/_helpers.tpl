{{- define "waybill.name" -}}
{{- $name := .Release.Name -}}
{{- if contains .Chart.Name $name }}{{ $name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" $name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "waybill.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "waybill.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "waybill.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end -}}
{{- end -}}

{{- /* What finds the pods of a part. It never changes. Takes a dict of root and part. */ -}}
{{- define "waybill.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "waybill.labels" -}}
{{ include "waybill.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- /* A variable out of a Secret. Takes a dict of name, secret, what. */ -}}
{{- define "waybill.secret" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ required (printf "%s.name is required: the name of a Secret" .what) .secret.name | quote }}
      key: {{ .secret.key | quote }}
{{- end -}}

{{- /* Settings as variables: those of all services, and over them those of the part. Takes a dict of root, part. */ -}}
{{- define "waybill.settings" -}}
{{- $own := (index .root.Values .part).settings -}}
{{- range $name, $value := mergeOverwrite (deepCopy .root.Values.settings) $own }}
{{- if has $name (list "WAYBILL_DATABASE_URL" "WAYBILL_NATS_URL" "WAYBILL_ENCRYPTION_KEY" "WAYBILL_ADMIN_KEY" "WAYBILL_OIDC_CLIENT_SECRET") }}
{{- fail (printf "%s is a secret: put it into a Secret, and name it below secrets" $name) }}
{{- end }}
{{- if has $name (list "WAYBILL_HTTP_ADDR" "WAYBILL_OPS_ADDR" "WAYBILL_TLS_ADDR" "WAYBILL_TLS_CERT" "WAYBILL_TLS_KEY") }}
{{- fail (printf "%s is set by the chart" $name) }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}

{{- define "waybill.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "waybill.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Where pods go. Takes a dict of root and part. */ -}}
{{- define "waybill.placement" -}}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if .root.Values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $.root.Values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{ include "waybill.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}
