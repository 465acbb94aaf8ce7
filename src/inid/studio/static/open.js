"use strict";
// The key belongs to this port of this address alone, unlike a cookie.
localStorage.setItem("inid-key", document.querySelector("meta[name=key]").content);
location.replace("/");
