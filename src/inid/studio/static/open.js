"use strict";
// Storage belongs to this port of this address alone, unlike a cookie, which is sent to every port.
localStorage.setItem("inid-key", document.querySelector("meta[name=key]").content);
location.replace(document.querySelector("meta[name=page]").content);
