const status = await (await fetch("/v1/whoami")).json();
document.getElementById("app").textContent = `Tidegate, for ${status.name}`;
