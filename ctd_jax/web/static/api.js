"use strict";
// The library that draws the description is the one that FastAPI uses.
window.addEventListener("DOMContentLoaded", () => {
  window.SwaggerUIBundle({
    url: "/api/openapi.json",
    dom_id: "#description",
    deepLinking: true,
    validatorUrl: null,
  });
});
