"""Chat templates and special tokens beside `transformers`; where ends come from; files that are no tokenizer."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_infer_tokenizers import CHATML, KINDS, folder
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pycore.errors import InputError, SourceError
from runtime.mini_infer import words
from runtime.mini_infer.chat_template import ChatTemplate
from runtime.models.gguf import Gguf, open_gguf
from runtime.models.supply import SMOLLM2, fetch

# Each written for these tests in the manner of one family: what its real template uses of Jinja, this one does.
TEMPLATES = {
    "chatml": CHATML,
    "qwen 2": """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role != "system" or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}""",
    "qwen 3": """{%- set ns = namespace(last=messages|length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.seen and message.role == "user" and message.content is string and not(message.content.startswith('<r>')) %}
        {%- set ns.seen = true %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" and '</think>' in content and loop.index0 < ns.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "llama 3": """{{- bos_token }}
{%- if not date_string is defined %}{%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}{%- endif %}
{%- set loop_messages = messages %}
{%- if tools is not none %}{{- tools | tojson(indent=4) }}{%- endif %}
{%- for message in loop_messages %}
    {% generation %}{{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + eos_token }}{% endgeneration %}
    {%- if loop.index > 6 %}{%- break %}{%- endif %}
{%- endfor %}
{{- date_string }}
{%- if add_generation_prompt %}{{- '<|start|>assistant<|end|>\\n\\n' }}{%- endif %}""",
    "mistral": """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}{{ message['content'] | tojson }}{{ eos_token }}
{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}""",
}


@pytest.fixture(scope="module", params=TEMPLATES)
def pair(request, tmp_path_factory):
    """(ours, that of transformers) with one template."""
    place = folder(tmp_path_factory.mktemp("chat"), KINDS["byte level"](), template=TEMPLATES[request.param])
    return words.from_folder(place, request.param), AutoTokenizer.from_pretrained(place)


def messages():
    content = st.one_of(st.text(max_size=20), st.sampled_from(["<|im_end|>", "a</think>\n b", "{{ 7 * 7 }}", " spaces ", "</s>\n"]))
    one = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": content},
                                optional={"name": st.none() | st.text(max_size=3)})
    return st.lists(one, min_size=1, max_size=9)


@settings(max_examples=60)
@given(said=messages(), prompted=st.booleans(), thinking=st.none() | st.booleans())
def test_a_conversation_is_what_transformers_makes_of_it(pair, said, prompted, thinking):
    ours, theirs = pair
    more = {} if thinking is None else {"enable_thinking": thinking}
    try:
        expected = theirs.apply_chat_template(said, add_generation_prompt=prompted, tokenize=False, **more)
    except Exception as error:  # what the template itself raises
        with pytest.raises(InputError) as caught:
            ours.chat(said, add_generation_prompt=prompted, **more)
        assert caught.value.field == "messages" and " ".join(str(error).split()) in caught.value.value
        return
    assert ours.render(said, add_generation_prompt=prompted, **more) == expected
    ids = theirs.apply_chat_template(said, add_generation_prompt=prompted, return_dict=False, **more)
    assert list(ours.chat(said, add_generation_prompt=prompted, **more)) == ids


def test_roles_that_do_not_alternate_are_refused_in_the_template_s_words(tmp_path):
    ours = words.from_folder(folder(tmp_path, KINDS["byte level"](), template=TEMPLATES["mistral"]), "x")
    with pytest.raises(InputError, match="roles must alternate"):
        ours.chat([{"role": "user", "content": "a"}] * 2)


def test_the_real_model_s_own_template():
    """SmolLM2's, out of its file, beside transformers with the same tokenizer."""
    ours = words.from_gguf(open_gguf(fetch(SMOLLM2, print)), "smollm2-135m")
    theirs = PreTrainedTokenizerFast(tokenizer_object=ours.backend, chat_template=ours.template.text)
    said = [{"role": "user", "content": "What is the capital of France?"}, {"role": "assistant", "content": "Paris."},
            {"role": "user", "content": "And of Žlutý 🦜?"}]
    for some in (said, said[:1], [{"role": "system", "content": "Be brief."}, *said]):
        assert list(ours.chat(some)) == theirs.apply_chat_template(some, add_generation_prompt=True, return_dict=False)
    assert ours.chat(said[:1])[0] == 1 and ours.end == (2,) and ours.before == ()
    assert ours.encode("a", specials=True) == ours.encode("a")


@pytest.mark.parametrize("adds", [None, True, False])
@pytest.mark.parametrize("kind", ["byte level", "llama 2"])
def test_a_beginning_is_put_before_a_raw_text_as_transformers_does(kind, adds, tmp_path):
    config = {"bos_token": "<s>", "eos_token": "</s>"} if kind == "llama 2" else {}
    ours = words.from_folder(folder(tmp_path, KINDS[kind](), config=config), "x")
    expected = AutoTokenizer.from_pretrained(tmp_path)("The earth")["input_ids"]
    assert list(ours.encode("The earth", specials=True)) == expected
    assert ours.encode("The earth", specials=True)[-len(ours.encode("The earth")):] == ours.encode("The earth")
    if adds is not None:  # said by name, it is so
        path = tmp_path / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"add_bos_token": adds}))
        begin = ours.backend.token_to_id(config.get("bos_token", "<|endoftext|>"))
        assert words.from_folder(tmp_path, "x").encode("The earth", specials=True) == (begin,) * adds + ours.encode("The earth")


def test_ends_come_from_every_file_and_from_the_template(tmp_path):
    backend = KINDS["byte level"]()
    files = {"config.json": json.dumps({"eos_token_id": 7})}
    one = words.from_folder(folder(tmp_path, backend, generation={"eos_token_id": [0, 9, True, "x", -3]}, files=files,
                                   config={"eos_token": {"content": "<|endoftext|>"}}), "x")
    assert one.end == (0, 9, 7, 2)  # 2 is what ChatML writes behind an answer
    assert words.from_folder(folder(tmp_path, backend, generation={}, template="{{ messages[0].content }}",
                                    files={"config.json": "{}"}), "x").end == (2,)


def test_content_in_parts_is_its_text():
    template = ChatTemplate("{{ messages[0].content }}", {}, "x")
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert template.render([{"role": "user", "content": parts}]) == "a\nb"
    with pytest.raises(InputError, match="image_url"):
        template.render([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])


@pytest.mark.parametrize("wrong", [[], ["a"], [{"content": "a"}], [{"role": 5}], [{"role": ""}], [{"role": "user", "content": 5}],
                                   [{"role": "user", "content": [5]}], [{"role": "user", "content": "a", "extra": object()}]], ids=list("abcdefgh"))
def test_messages_that_are_none_are_refused(wrong):
    with pytest.raises(InputError):
        ChatTemplate(CHATML, {}, "x").render(wrong)


def test_a_variable_of_any_name_is_a_variable_or_refused(tmp_path):
    one = words.from_folder(folder(tmp_path, KINDS["byte level"](), template="{{ messages[0].content }}{{ given }}"), "x")
    assert one.render([{"role": "user", "content": "a"}], given="b") == "ab"
    for name in ("self", "messages", "args", "environment"):
        try:
            assert one.render([{"role": "user", "content": "a"}], **{name: "b"}) == "a"
        except InputError as error:
            assert error.field == "messages"


@pytest.mark.parametrize("product", ["7 * '7' * 999999999", "'7' * 999999999", "999999999 * [1]", "2 ** 999999999 % 7",
                                     "messages[0].content * 999999999"])
def test_products_too_large_are_refused_before_they_are_taken(product):
    with pytest.raises(InputError, match="product"):
        ChatTemplate("{{ " + product + " }}", {}, "hostile").render([{"role": "user", "content": "hello"}])
    assert ChatTemplate("{{ '-' * 3 * 2 }}{{ 2 ** 10 }}{{ 2.5 * 2 }}", {}, "m").render([{"role": "user"}]) == "------10245.0"


@pytest.mark.parametrize("hostile", [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.append({'role': 'x'}) }}", "{{ cycler.__init__.__globals__ }}",
    "{{ strftime_now.__globals__ }}", "{{ namespace(__class__=1) }}", "{% set n = namespace() %}{% set n.__init__ = 1 %}",
    "{{ 'a' * 10 }}{% include 'x' %}", "{{ range(1000000000) | list }}", "{{ 1 / 0 }}", "{{ undefined.name }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ messages[0].content.format.__globals__ }}",
    "{% for i in range(99999) %}{{ '" + "x" * 1000 + "' }}{% endfor %}"], ids=lambda one: one[:50])
def test_hostile_templates_get_nowhere(hostile):
    try:
        assert not ChatTemplate(hostile, {}, "x").render([{"role": "user", "content": "a"}]).strip()
    except InputError as error:
        assert error.field == "messages"


def test_a_template_that_is_no_jinja_is_said(tmp_path):
    for text in ("{% for %}", "{{ a", "{% generation %}"):
        with pytest.raises(SourceError, match="no Jinja"):
            words.from_folder(folder(tmp_path, KINDS["byte level"](), template=text), "x")


def test_templates_by_name_and_in_a_file(tmp_path):
    backend = KINDS["byte level"]()
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "one"}]
    assert words.from_folder(folder(tmp_path, backend, template=several), "x").render([{"role": "user"}]) == "one"
    place = folder(tmp_path, backend, template=several, files={"chat_template.jinja": "file"})
    assert words.from_folder(place, "x").render([{"role": "user"}]) == "file"


def test_a_model_without_a_template_takes_no_conversation(tmp_path):
    with pytest.raises(InputError, match="no chat template"):
        words.from_folder(folder(tmp_path, KINDS["byte level"](), template=None), "x").chat([{"role": "user", "content": "a"}])


def test_text_that_is_no_unicode_is_refused(tmp_path):
    one = words.from_folder(folder(tmp_path, KINDS["byte level"]()), "x")
    with pytest.raises(InputError, match="UTF-8"):
        one.encode("a\udcffb")
    assert one.encode("") == ()


@pytest.mark.parametrize(("name", "content", "said"), [
    ("tokenizer.json", None, "holds no tokenizer.json"), ("tokenizer.json", b"{", "is not a tokenizer"),
    ("tokenizer.json", b"\xff\xfe", "is not a tokenizer"), ("tokenizer.json", b"[]", "is not a tokenizer"),
    ("tokenizer_config.json", b"[1]", "is not a JSON object"), ("tokenizer_config.json", b"\xff", "cannot be read as JSON"),
    ("generation_config.json", b"{", "cannot be read as JSON"), ("chat_template.jinja", b"\xff\xff", "cannot be read as text")])
def test_files_that_are_no_tokenizer_are_said_by_name(name, content, said, tmp_path):
    place = folder(tmp_path, KINDS["byte level"]())
    (place / name).unlink(missing_ok=True)
    if content is not None:
        (place / name).write_bytes(content)
    with pytest.raises(SourceError, match=said):
        words.from_folder(place, "x")


def test_a_tokenizer_of_sentencepiece_alone_is_said(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    with pytest.raises(SourceError, match="tokenizer.model is there"):
        words.from_folder(tmp_path, "x")


def test_special_tokens_of_a_gguf_file():
    """Ends of turn, a beginning that is asked for, tokens of a user that are text."""
    file = open_gguf(fetch(SMOLLM2, print))
    kinds = list(file.metadata["tokenizer.ggml.token_type"])
    kinds[3] = 4  # <repo_name>, as a user's own
    more = {"tokenizer.ggml.eot_token_id": 0, "tokenizer.ggml.eom_token_id": 5, "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.token_type": kinds}
    one = words.from_gguf(Gguf(source="x", version=3, metadata=file.metadata | more, tensors={}, view=file.view), "x")
    assert one.end == (2, 0, 5) and one.before == (1,) and one.encode("<|endoftext|>", specials=True) == (1, 0)
    assert one.decode([0, 3, 5]) == "<repo_name>" and 3 not in one.special and 5 in one.special
