// Asks for the page again with the token that was typed in: a browser can't send one by itself.
const form = document.getElementById("access");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = document.getElementById("token").value;
  const answer = await fetch("/web", { headers: { Authorization: `Bearer ${token}` } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (answer.ok) document.body.replaceChildren(...page.body.childNodes);
  else document.querySelector("p").textContent = page.querySelector("p").textContent;
});
