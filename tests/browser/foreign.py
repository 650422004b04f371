"""Ways in which a page can make a browser send a request, each as JavaScript that ends when the browser is done.

``GETS`` take an address. ``POSTS`` take an address and a string, which they send in whatever form they can.
"""

_ELEMENT = """([url]) => new Promise(done => {{
    const element = document.createElement('{tag}');
    element.onload = element.onerror = done;
    {set};
    document.body.append(element);
}})"""
_FORM = """([url, body]) => new Promise(done => {{
    const frame = document.createElement('iframe');
    frame.name = 'target';
    document.body.append(frame);
    frame.onload = done;
    const form = document.createElement('form');
    Object.assign(form, {{method: '{method}', action: url, target: 'target', enctype: '{kind}'}});
    for (const [name, value] of {fields}) {{
        const field = document.createElement('input');
        Object.assign(field, {{type: 'hidden', name, value}});
        form.append(field);
    }}
    document.body.append(form);
    form.submit();
}})"""
_AHEAD = """([url]) => {{
    const rules = document.createElement('script');
    rules.type = 'speculationrules';
    rules.textContent = JSON.stringify({{{how}: [{{urls: [url], eagerness: 'immediate'}}]}});
    document.head.append(rules);
}}"""
_FETCH = "([url, body]) => fetch(url, {options}).then(() => null, () => null)"

GETS = {
    "image": _ELEMENT.format(tag="img", set="element.src = url"),
    "script": _ELEMENT.format(tag="script", set="element.src = url"),
    "frame": _ELEMENT.format(tag="iframe", set="element.src = url"),
    "stylesheet": _ELEMENT.format(tag="link", set="element.rel = 'stylesheet'; element.href = url"),
    "fetch without CORS": _FETCH.format(options="{mode: 'no-cors'}"),
    "fetch with CORS": _FETCH.format(options="{}"),
    "form": _FORM.format(method="get", kind="", fields="new URL(url).searchParams"),
    "websocket": """([url]) => new Promise(done => {
        new WebSocket(url.replace('http:', 'ws:')).onerror = done;
    })""",
    "prefetch": _ELEMENT.format(tag="link", set="element.rel = 'prefetch'; element.href = url"),
    "prefetch by rules": _AHEAD.format(how="prefetch"),
    "prerender by rules": _AHEAD.format(how="prerender"),
    "window": "([url]) => { open(url); }",
    "link": "([url]) => { location = url; }",
}
POSTS = {
    "form": _FORM.format(
        method="post", kind="application/x-www-form-urlencoded", fields="[...new URLSearchParams(body), ['', '']]"
    ),
    # A page can choose the text but for a '=' in it: JSON takes one as easily as a form does.
    "form as text": _FORM.format(method="post", kind="text/plain", fields="[[body, '']]"),
    "fetch of text": _FETCH.format(options="{method: 'POST', mode: 'no-cors', body}"),
    "fetch of a form": _FETCH.format(options="{method: 'POST', mode: 'no-cors', body: new URLSearchParams(body)}"),
    "fetch of JSON": _FETCH.format(
        options="{method: 'POST', body, headers: {'Content-Type': 'application/json', 'X-Amz-Target': 'AmazonSQS.X'}}"
    ),
    "fetch that says nothing of itself": _FETCH.format(
        options="{method: 'POST', mode: 'no-cors', body, referrerPolicy: 'no-referrer'}"
    ),
    "beacon": "([url, body]) => { navigator.sendBeacon(url, body); }",
}
DELETE = _FETCH.format(options="{method: 'DELETE'}")
