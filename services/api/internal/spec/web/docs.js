"use strict";

// Everything comes from this server, and requests that are tried out go to it.
window.addEventListener("load", () => {
  window.ui = SwaggerUIBundle({
    url: "/openapi",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    docExpansion: "list",
    filter: true,
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    persistAuthorization: false,
    showExtensions: true,
    tryItOutEnabled: false,
  });
});
